#include "mxgemm/plan.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "api/check.h"
#include "api/plan_impl.h"
#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/parallel.h"
#include "layout/layouts.h"

namespace mxgemm {

namespace {

/// Spans of a range, after its checks.
Result<PartialOutput> check_range(const PartialRange& range, std::int64_t k) noexcept {
  const std::int64_t end = range.k_end == -1 ? k : range.k_end;
  if (range.k_begin < 0 || range.k_begin >= end || end > k)
    return Status::error(StatusCode::invalid_argument,
                         "range is k %" PRId64 " to %" PRId64 ", must be a part of 0 to %" PRId64,
                         range.k_begin, end, k);
  if (range.k_begin % kSpan != 0 || (end % kSpan != 0 && end != k))
    return Status::error(StatusCode::invalid_argument,
                         "range is k %" PRId64 " to %" PRId64
                         ", must be cut at multiples of 256 or at K = %" PRId64,
                         range.k_begin, end, k);
  if (range.first_span < 0 || range.first_span > cpu::kMaxK / kSpan - layout::ceil_div(k, kSpan))
    return Status::error(StatusCode::invalid_argument,
                         "range.first_span is %" PRId64 ", must be at least 0 and end by 2^32",
                         range.first_span);
  PartialOutput partial;
  partial.span_begin = range.k_begin / kSpan;
  partial.span_end = layout::ceil_div(end, kSpan);
  partial.first_span = range.first_span;
  return partial;
}

int nodes_of(const PartialOutput& partial, cpu::SpanRange (&ranges)[cpu::kMaxTreeDepth]) noexcept {
  return cpu::tree_nodes(partial.first_span + partial.span_begin,
                         partial.first_span + partial.span_end, ranges);
}

Status check_activations(const Plan::Impl& plan, const ConstMatrix& a) noexcept {
  if (Status s = check_matrix("a", a); !s.is_ok()) return s;
  if (plan.options.activation == Activation::none && a.dtype == DType::f32)
    return Status::error(StatusCode::invalid_argument,
                         "a.dtype is f32, must be bf16 or f16 with activation = none");
  return {};
}

Status check_activations(const Plan::Impl& plan, const Mxfp4View& a) noexcept {
  if (plan.options.activation == Activation::none)
    return Status::error(StatusCode::invalid_argument,
                         "a is MXFP4, must be bf16 or f16 with activation = none");
  return check_mxfp4("a", a);
}

/// What a run writes must lie apart from what it reads.
template <class A>
Status check_apart(const A& a, const char* name, const StridedBytes& output,
                   std::span<const std::byte> workspace) noexcept {
  if (overlaps(output, a))
    return Status::error(StatusCode::invalid_argument, "%s overlaps a, must be apart from it",
                         name);
  if (overlaps(bytes_of(workspace), a))
    return Status::error(StatusCode::invalid_argument,
                         "workspace overlaps a, must be apart from it");
  if (overlaps(bytes_of(workspace), output))
    return Status::error(StatusCode::invalid_argument,
                         "workspace overlaps %s, must be apart from it", name);
  return {};
}

template <class A>
Status check_rows(const Plan::Impl& plan, const A& a) noexcept {
  if (Status s = check_activations(plan, a); !s.is_ok()) return s;
  if (a.rows > plan.m_max)
    return Status::error(StatusCode::invalid_argument,
                         "a.rows is %" PRId64 ", must be at most the plan's m_max = %" PRId64,
                         a.rows, plan.m_max);
  if (a.cols != plan.view.k)
    return Status::error(StatusCode::invalid_argument,
                         "a.cols is %" PRId64 ", must be k = %" PRId64, a.cols, plan.view.k);
  return {};
}

void set_activations(RunArgs& args, const ConstMatrix& a) noexcept {
  args.a = a;
}
void set_activations(RunArgs& args, const Mxfp4View& a) noexcept {
  args.a_mxfp4 = a;
}

template <class A>
Status run_full(const Plan::Impl& plan, const A& a, const Matrix& c, std::span<std::byte> workspace,
                const Epilogue& epilogue, Stream stream) noexcept {
  if (Status s = check_rows(plan, a); !s.is_ok()) return s;
  if (Status s = check_output(c, epilogue, plan.view.n); !s.is_ok()) return s;
  if (c.rows != a.rows)
    return Status::error(StatusCode::invalid_argument,
                         "c.rows is %" PRId64 ", must be a.rows = %" PRId64, c.rows, a.rows);
  if (Status s = check_apart(a, "c", bytes_of(c), workspace); !s.is_ok()) return s;
  const StridedBytes bias = bytes_of(std::as_bytes(epilogue.bias));
  if (overlaps(bias, bytes_of(c)) || overlaps(bias, bytes_of(workspace)))
    return Status::error(StatusCode::invalid_argument,
                         "bias overlaps c or workspace, must be apart from them");
  RunArgs args;
  set_activations(args, a);
  args.c = c;
  args.epilogue = epilogue;
  return plan.run(args, workspace, stream);
}

template <class A>
Status run_part(const Plan::Impl& plan, const A& a, const PartialRange& range,
                std::span<float> sums, std::span<PartialNode> nodes, std::span<std::byte> workspace,
                Stream stream) noexcept {
  if (plan.bucket(a.rows).kernel().promise(plan.options.activation) != Reproducible::device)
    return Status::error(StatusCode::unsupported,
                         "kernel %s with activation = %s has no ordered sum, so no partial nodes",
                         plan.bucket(a.rows).kernel().name.data(),
                         to_string(plan.options.activation).data());
  if (Status s = check_rows(plan, a); !s.is_ok()) return s;
  Result<PartialOutput> partial = check_range(range, plan.view.k);
  if (!partial.is_ok()) return partial.status();
  cpu::SpanRange ranges[cpu::kMaxTreeDepth];
  const int count = nodes_of(*partial, ranges);
  const std::int64_t node_size = a.rows * plan.view.n;
  if (static_cast<std::int64_t>(nodes.size()) < count)
    return Status::error(StatusCode::invalid_argument,
                         "nodes has room for %zu, must have for num_partial_nodes = %d",
                         nodes.size(), count);
  if (static_cast<std::int64_t>(sums.size()) / count < node_size)
    return Status::error(StatusCode::invalid_argument,
                         "sums has room for %zu floats, must have for %d nodes of %" PRId64
                         " x %" PRId64,
                         sums.size(), count, a.rows, plan.view.n);
  if (Status s = check_apart(a, "sums", bytes_of(std::as_bytes(sums)), workspace); !s.is_ok())
    return s;
  RunArgs args;
  set_activations(args, a);
  args.partial = *partial;
  args.partial.sums = sums.data();
  if (Status s = plan.run(args, workspace, stream); !s.is_ok()) return s;
  for (int i = 0; i < count; ++i)
    nodes[static_cast<std::size_t>(i)] = {ranges[i].first, ranges[i].count,
                                          sums.data() + i * node_size};
  return {};
}

}  // namespace

Status Plan::Impl::run(RunArgs args, std::span<std::byte> workspace, Stream stream) const noexcept {
  const std::int64_t m = std::max(args.a.rows, args.a_mxfp4.rows);
  if (m == 0) return {};
  const std::size_t need = workspace_bytes(m);
  if (workspace.size() < need)
    return Status::error(StatusCode::invalid_argument,
                         "workspace has %zu bytes, must have workspace_bytes(%" PRId64 ") = %zu",
                         workspace.size(), m, need);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  const std::uintptr_t aligned =
      (address + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  args.workspace = need == 0 ? nullptr : workspace.data() + (aligned - address);
  const Bucket& b = bucket(m);
  args.w = view;
  args.activation = options.activation;
  args.reproducible = options.reproducible;
  args.activation_rule = options.activation_rule;
  args.non_finite = options.non_finite;
  args.config = b.choice.config;
  args.threads = options.threads;
  args.num_threads = num_threads;
  args.stream = stream;
  return b.kernel().run(args);
}

Plan::Plan(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

std::int64_t Plan::m_max() const noexcept {
  return impl_->m_max;
}
std::int64_t Plan::n() const noexcept {
  return impl_->view.n;
}
std::int64_t Plan::k() const noexcept {
  return impl_->view.k;
}
std::string_view Plan::kernel(std::int64_t m) const noexcept {
  return impl_->bucket(m).kernel().name;
}

std::string_view Plan::warning() const noexcept {
  return impl_->warning;
}

std::size_t Plan::workspace_bytes(std::int64_t m) const noexcept {
  return impl_->workspace_bytes(std::clamp<std::int64_t>(m, 0, impl_->m_max));
}

std::size_t Plan::workspace_bytes() const noexcept {
  std::size_t largest = 0;  // workspaces grow with M inside a bucket, not from one to the next
  for (const Bucket& b : impl_->buckets)
    largest = std::max(largest, impl_->workspace_bytes(b.m_max));
  return largest;
}

Status Plan::run(const ConstMatrix& a, const Matrix& c, std::span<std::byte> workspace,
                 const Epilogue& epilogue, Stream stream) const noexcept {
  return run_full(*impl_, a, c, workspace, epilogue, stream);
}

Status Plan::run(const Mxfp4View& a, const Matrix& c, std::span<std::byte> workspace,
                 const Epilogue& epilogue, Stream stream) const noexcept {
  return run_full(*impl_, a, c, workspace, epilogue, stream);
}

Result<std::int64_t> Plan::num_partial_nodes(const PartialRange& range) const noexcept {
  const Result<PartialOutput> partial = check_range(range, impl_->view.k);
  if (!partial.is_ok()) return partial.status();
  cpu::SpanRange ranges[cpu::kMaxTreeDepth];
  return std::int64_t{nodes_of(*partial, ranges)};
}

Status Plan::run_partial(const ConstMatrix& a, const PartialRange& range, std::span<float> sums,
                         std::span<PartialNode> nodes, std::span<std::byte> workspace,
                         Stream stream) const noexcept {
  return run_part(*impl_, a, range, sums, nodes, workspace, stream);
}

Status Plan::run_partial(const Mxfp4View& a, const PartialRange& range, std::span<float> sums,
                         std::span<PartialNode> nodes, std::span<std::byte> workspace,
                         Stream stream) const noexcept {
  return run_part(*impl_, a, range, sums, nodes, workspace, stream);
}

}  // namespace mxgemm
