// Creation of a plan: options and environment, tuning tables, a kernel for each bucket of M.
#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <new>
#include <utility>

#include "api/check.h"
#include "api/plan_impl.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/parallel.h"
#include "mxgemm/plan.h"

namespace mxgemm {
namespace {

const char* environment_variable(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// Every variable that is set, and what came of it.
std::string environment_in_force(const PlanOptions& options, bool tuning_usable) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& note) {
    const char* value = environment_variable(name);
    if (value != nullptr) text += std::string(text.empty() ? "" : ", ") + name + "=" + value + note;
  };
  add("MXGEMM_CPU_ISA", "");
  add("MXGEMM_KERNEL", options.kernel.empty() ? "" : " (options.kernel overrides it)");
  if (options.tuning != nullptr)
    add("MXGEMM_TUNING", " (options.tuning overrides it)");
  else
    add("MXGEMM_TUNING", tuning_usable ? "" : " (ignored)");
  return text;
}

/// Where the choice may change with M: powers of two, the tuning rows' bounds, and m_max itself.
std::vector<std::int64_t> bucket_bounds(const Plan::Impl& plan) {
  std::vector<std::int64_t> bounds{plan.m_max};
  for (std::int64_t m = 1; m < plan.m_max; m *= 2) bounds.push_back(m);
  for (const TuningSource& source : plan.sources)
    for (const TuningRow* row : source.rows)
      if (row->m_max < plan.m_max) bounds.push_back(row->m_max);
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

Status no_kernel(const Choice& choice, const Problem& problem, const Device& device,
                 std::string_view forced, const char* forced_by) {
  // The most telling verdict: of the kernel asked for, else of the one that got furthest.
  const Candidate* telling = nullptr;
  for (const Candidate& candidate : choice.candidates) {
    if (candidate.kernel->device != device.kind) continue;
    if (forced.empty() ? telling == nullptr || candidate.checks_passed > telling->checks_passed
                       : candidate.kernel->name == forced)
      telling = &candidate;
  }
  if (telling == nullptr)
    return Status::error(StatusCode::unsupported, "no kernel for device %s is built in",
                         to_string(device).c_str());
  return Status::error(StatusCode::unsupported,
                       "%s%sno kernel can run [n %" PRId64 ", k %" PRId64
                       "] with activation = %s, reproducible = %s; %s: %s",
                       forced_by, forced.empty() ? "" : ": ", problem.shape.n, problem.shape.k,
                       to_string(problem.activation).data(), to_string(problem.reproducible).data(),
                       telling->kernel->name.data(), telling->verdict.c_str());
}

Status check_options(const WeightsView& view, std::int64_t m_max, const PlanOptions& options) {
  if (m_max < 0 || m_max > (std::int64_t{1} << 40))
    return Status::error(StatusCode::invalid_argument, "m_max is %" PRId64 ", must be 0 to 2^40",
                         m_max);
  if (m_max > 0 && m_max > (std::int64_t{1} << 56) / std::max(view.k, view.n))
    return Status::error(StatusCode::invalid_argument,
                         "m_max is %" PRId64 ", must be at most 2^56 / max(n, k)", m_max);
  if (options.activation != Activation::mxfp4 && options.activation != Activation::none)
    return Status::error(StatusCode::invalid_argument, "activation is %d, must be mxfp4 or none",
                         static_cast<int>(options.activation));
  if (options.reproducible < Reproducible::run || options.reproducible > Reproducible::device)
    return Status::error(StatusCode::invalid_argument,
                         "reproducible is %d, must be run, batch or device",
                         static_cast<int>(options.reproducible));
  return check_rule(options.activation_rule, options.non_finite);
}

/// What a plan of this promise may choose from, so that all M share one numeric path.
struct Restriction {
  Problem problem;
  std::string only_name;
  std::string_view only_reason = "is asked for";

  OnlyKernel only() const noexcept { return {only_name, only_reason}; }
};

/// `batch`: one path for every M, that of the largest: its kernel, or any with the ordered sum.
Restriction restrict_to_one_path(Plan::Impl& plan) {
  Restriction r{plan.problem(plan.m_max), plan.forced};
  if (r.problem.reproducible != Reproducible::batch) return r;
  const Choice largest = choose(registry(), r.problem, plan.device, r.only(), plan.sources);
  if (largest.kernel == nullptr) return r;
  if (largest.kernel->promise(r.problem.activation) == Reproducible::device) {
    r.problem.reproducible = Reproducible::device;
    plan.one_path = "kernels with the ordered sum (reproducible = device)";
  } else {
    r.only_name = largest.kernel->name;
    if (plan.forced.empty()) r.only_reason = "serves every m of a plan with reproducible = batch";
    plan.one_path = "kernel " + r.only_name;
  }
  return r;
}

/// Fixes a kernel and config for each bucket of M.
Status choose_buckets(Plan::Impl& plan, const char* forced_by) {
  Restriction r = restrict_to_one_path(plan);
  for (const std::int64_t m : bucket_bounds(plan)) {
    r.problem.shape.m = m;
    Bucket bucket{m, choose(registry(), r.problem, plan.device, r.only(), plan.sources)};
    if (bucket.choice.kernel == nullptr)
      return no_kernel(bucket.choice, r.problem, plan.device, r.only_name, forced_by);
    if (plan.options.reproducible != Reproducible::run) {
      Problem weaker = r.problem;
      weaker.reproducible = Reproducible::run;
      bucket.without_promise = choose(registry(), weaker, plan.device, {plan.forced}, plan.sources);
    }
    const bool same = !plan.buckets.empty() && plan.buckets.back().same_choice(bucket);
    if (same)
      plan.buckets.back() = std::move(bucket);
    else
      plan.buckets.push_back(std::move(bucket));
  }
  return {};
}

/// The caller's table, else that of MXGEMM_TUNING, then the built-in one. A table that cannot be
/// used is worth a warning, not an error: it only makes things faster.
void find_tuning(Plan::Impl& plan, const PlanOptions& options) {
  if (options.tuning != nullptr) {
    plan.tuning = *options.tuning;
  } else if (Result<Tuning> table = Tuning::from_environment(); table.is_ok()) {
    if (table->num_rows() > 0) plan.tuning = std::move(table).value();
  } else {
    plan.warning = "MXGEMM_TUNING is ignored: " + std::string(table.status().message());
  }
  plan.environment = environment_in_force(options, plan.warning.empty());
  plan.options.tuning = nullptr;
  plan.tuning_device = Tuning::device(plan.device);
  const auto add = [&plan](std::string_view name, std::span<const TuningRow> rows) {
    plan.sources.push_back(tuning_source(name, rows, plan.tuning_device, plan.problem(plan.m_max)));
  };
  if (plan.tuning) add(plan.tuning->name(), plan.tuning->impl().rows);
  add("the built-in table", built_in_tuning());
}

/// A plan without weights of its own, for those of `view`.
Result<std::shared_ptr<Plan::Impl>> create_impl(const Device& device, const WeightsView& view,
                                                std::int64_t m_max, const PlanOptions& options) {
  if (Status s = check_options(view, m_max, options); !s.is_ok()) return s;
  if (const auto isa = cpu::usable_isa(); !isa.is_ok()) return isa.status();
  // The option wins over the variable: it is the more deliberate of the two.
  const char* from_environment = environment_variable("MXGEMM_KERNEL");
  std::string forced(options.kernel);
  const char* forced_by = forced.empty() ? "" : "options.kernel";
  if (forced.empty() && from_environment != nullptr) {
    forced = from_environment;
    forced_by = "MXGEMM_KERNEL";
  }
  if (!forced.empty() && find_kernel(forced) == nullptr)
    return Status::error(StatusCode::invalid_argument,
                         "%s is '%.60s', must be a name that `mxgemm kernels` lists", forced_by,
                         forced.c_str());
  auto impl = std::make_shared<Plan::Impl>();
  impl->device = device;
  impl->view = view;
  impl->m_max = m_max;
  impl->num_threads = cpu::num_threads(options.threads);
  impl->options = options;
  impl->forced = forced;
  impl->options.kernel = impl->forced;
  find_tuning(*impl, options);
  if (Status s = choose_buckets(*impl, forced_by); !s.is_ok()) return s;
  return impl;
}

}  // namespace

Result<Plan> Plan::create(const Device& device, const Weights& weights, std::int64_t m_max,
                          const PlanOptions& options) {
  try {
    if (weights.num_experts() != 1)
      return Status::error(StatusCode::invalid_argument,
                           "weights hold %" PRId64
                           " experts, must be one matrix: take one with Weights::slice",
                           weights.num_experts());
    auto impl = create_impl(device, weights.impl().expert(0), m_max, options);
    if (!impl.is_ok()) return impl.status();
    impl.value()->weights = weights;
    return Plan(std::move(impl).value());
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "no memory for a plan");
  }
}

Result<std::string> explain(const Device& device, const Shape& shape, Layout layout,
                            const PlanOptions& options) {
  try {
    // Whether such weights can exist at all.
    if (const auto bytes = layout_bytes(layout, shape.n, shape.k); !bytes.is_ok())
      return bytes.status();
    const WeightsView view{.layout = layout, .n = shape.n, .k = shape.k};
    auto impl = create_impl(device, view, shape.m, options);
    if (!impl.is_ok()) return impl.status();
    return Plan(std::move(impl).value()).explain(shape.m);
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "no memory for a plan");
  }
}

}  // namespace mxgemm
