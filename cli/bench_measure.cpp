#include "bench_measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <utility>

#include "activations.h"
#include "layers.h"
#include "mxgemm/kernels.h"
#include "oracle.h"
#include "read_floor.h"

namespace mxgemm::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kReference = "cpu_reference";
constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kCheckedRows = 17, kCheckedCols = 48;  // the reference is slow
constexpr std::int64_t kMaxCopyBytes = std::int64_t{1} << 30, kMaxCopies = 4096;
constexpr std::int64_t kMinRuns = 5, kMaxRounds = 2000;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Copies of the weights in one layout, and a plan on each for every kernel that reads it.
struct Candidate {
  KernelTiming result;
  std::vector<Plan> plans;
  std::int64_t max_runs = kMaxRounds;
  std::vector<double> warm, cold;  // microseconds

  bool takes_part() const {
    return result.skipped.empty() && result.mismatch.empty() &&
           static_cast<std::int64_t>(warm.size()) < max_runs;
  }
};

class Bench {
 public:
  Bench(const Shape& shape, const Weights& weights, const BenchOptions& options,
        ThreadPool& threads)
      : shape_(shape), weights_(weights), options_(options), threads_(threads) {
    result_.shape = shape;
    result_.weight_bytes = weights.bytes();
    result_.num_copies = num_copies();
    a_ = random_activations(shape.m, shape.k, kSeed);
    c_.resize(static_cast<std::size_t>(shape.m * shape.n));
    row_step_ = ceil_div(shape.m, kCheckedRows);
    col_step_ = ceil_div(shape.n, kCheckedCols);
    result_.checked_rows = ceil_div(shape.m, row_step_);
    result_.checked_cols = ceil_div(shape.n, col_step_);
  }

  Result<ShapeTiming> run();

 private:
  std::int64_t num_copies() const;
  Status prepare(const KernelInfo& kernel);
  Result<const std::vector<Weights>*> copies(const Weights& packed);
  Result<std::string> check(const KernelInfo& kernel, const Plan& plan);
  Result<Weights> checked_weights() const;
  Status measure();
  Status round(bool timed);
  double time_floor(std::size_t copy);
  Result<double> time_plan(const Plan& plan, std::int64_t rows);
  Status limit_runs(Candidate& candidate);

  Shape shape_;
  const Weights& weights_;
  const BenchOptions& options_;
  ThreadPool& threads_;
  Bf16Matrix a_;
  std::vector<bf16> c_;
  std::vector<std::byte> workspace_;
  std::int64_t row_step_ = 1, col_step_ = 1;
  std::map<Layout, std::vector<Weights>> copies_;
  const std::vector<Weights>* floor_copies_ = nullptr;
  std::vector<Candidate> candidates_;
  std::vector<double> floor_warm_, floor_cold_;
  std::size_t next_copy_ = 0;
  std::uint64_t sink_ = 0;
  ShapeTiming result_;
};

Timing summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  if (n == 0) return {};
  return {(times[n / 2] + times[(n - 1) / 2]) / 2, times.front()};
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// So many that a copy has left the last-level cache before its turn comes again.
std::int64_t Bench::num_copies() const {
  const std::int64_t bytes = std::max<std::int64_t>(weights_.bytes(), 1);
  const std::int64_t wanted = ceil_div(4 * last_level_cache_bytes(), bytes) + 1;
  const std::int64_t affordable = std::min(available_memory_bytes() / 4, kMaxCopyBytes) / bytes;
  return std::clamp<std::int64_t>(std::min(wanted, affordable), 2, kMaxCopies);
}

Result<const std::vector<Weights>*> Bench::copies(const Weights& packed) {
  std::vector<Weights>& list = copies_[packed.layout()];
  while (list.size() < static_cast<std::size_t>(result_.num_copies)) {
    auto copy = weights_.to_layout(packed.layout(), &threads_);
    if (!copy.is_ok()) return copy.status();
    list.push_back(std::move(*copy));
  }
  return &list;
}

/// Every col_step-th row of W, for the reference.
Result<Weights> Bench::checked_weights() const {
  const std::int64_t code_stride = codes_per_row_bytes(shape_.k) * col_step_;
  const std::int64_t scale_stride = scales_per_row(shape_.k) * col_step_;
  const Mxfp4View view = {weights_.codes().data(),
                          weights_.scales().data(),
                          result_.checked_cols,
                          shape_.k,
                          code_stride,
                          scale_stride};
  return Weights::from_row_major(view);
}

/// Runs the very plan that is timed on all of A and compares a sample of C. Empty: right.
Result<std::string> Bench::check(const KernelInfo& kernel, const Plan& plan) {
  Product got{std::vector<float>(static_cast<std::size_t>(shape_.m * shape_.n)), shape_.m, shape_.n,
              kernel.name};
  const Matrix out(got.values.data(), DType::f32, shape_.m, shape_.n, shape_.n);
  if (const Status status = plan.run(a_.view(), out, workspace_); !status.is_ok()) return status;
  const auto sample = checked_weights();
  if (!sample.is_ok()) return sample.status();
  const auto promise = options_.activation == Activation::mxfp4 ? kernel.mxfp4 : kernel.none;
  std::optional<std::string> difference;
  if (promise == Reproducible::device) {
    PlanOptions reference;
    reference.activation = options_.activation;
    reference.kernel = kReference;
    reference.reproducible = Reproducible::device;
    const auto want = compute(*sample, a_.view(row_step_), reference);
    if (!want.is_ok()) return want.status();
    difference = differs_in_bits(got, *want, row_step_, col_step_);
  } else {
    const Mxfp4View view =
        mxfp4_view(sample->codes().data(), sample->scales().data(), result_.checked_cols, shape_.k);
    const auto want = expected_product(a_.view(row_step_), view, options_.activation,
                                       error_class_of(kernel, options_.activation));
    if (!want.is_ok()) return want.status();
    difference = exceeds_bound(got, *want, row_step_, col_step_);
  }
  return difference.value_or("");
}

Status Bench::prepare(const KernelInfo& kernel) {
  Candidate candidate;
  candidate.result.kernel = kernel.name;
  const auto packed = weights_for_kernel(weights_, kernel.name, &threads_);
  if (!packed.is_ok()) return packed.status();
  const auto list = copies(*packed);
  if (!list.is_ok()) return list.status();
  if (floor_copies_ == nullptr) floor_copies_ = *list;
  PlanOptions options;
  options.activation = options_.activation;
  options.kernel = kernel.name;
  options.threads = &threads_;
  for (const Weights& weights : **list) {
    auto plan = Plan::create(Device::cpu(), weights, shape_.m, options);
    if (!plan.is_ok() && plan.status().code() != StatusCode::unsupported) return plan.status();
    if (!plan.is_ok()) {
      candidate.result.skipped = plan.status().c_str();
      break;
    }
    candidate.plans.push_back(std::move(*plan));
  }
  if (candidate.result.skipped.empty()) {
    const std::size_t workspace = candidate.plans.front().workspace_bytes();
    workspace_.resize(std::max(workspace_.size(), workspace));
    if (const Status status = limit_runs(candidate); !status.is_ok()) return status;
  }
  if (candidate.result.skipped.empty()) {
    const Plan& plan = candidate.plans.front();
    auto mismatch = check(kernel, plan);
    if (!mismatch.is_ok()) return mismatch.status();
    candidate.result.mismatch = std::move(*mismatch);
  }
  candidates_.push_back(std::move(candidate));
  return {};
}

/// From the time of a few rows: how often the kernel may run, or that it is too slow to be measured
/// unless it was named.
Status Bench::limit_runs(Candidate& candidate) {
  const std::int64_t rows = std::min(shape_.m, kCheckedRows);
  const auto elapsed = time_plan(candidate.plans.front(), rows);
  if (!elapsed.is_ok()) return elapsed.status();
  const double seconds =
      *elapsed * 1e-6 * static_cast<double>(shape_.m) / static_cast<double>(rows);
  const double budget = std::max(options_.seconds, 0.5);
  if (options_.kernels.empty() && seconds > 5 * budget) {
    candidate.result.skipped =
        fmt::format("a run takes about {:.0f} s; --kernel measures it all the same", seconds);
  }
  if (seconds > budget / 10) candidate.max_runs = kMinRuns;
  if (seconds > budget) candidate.max_runs = 1;
  return {};
}

double Bench::time_floor(std::size_t copy) {
  const Weights& weights = (*floor_copies_)[copy];
  const auto start = Clock::now();
  sink_ += read_all(weights.codes(), threads_) + read_all(weights.scales(), threads_);
  return microseconds_since(start);
}

Result<double> Bench::time_plan(const Plan& plan, std::int64_t rows) {
  const Matrix c(c_.data(), DType::bf16, rows, shape_.n, shape_.n);
  ConstMatrix a = a_.view();
  a.rows = rows;
  const auto start = Clock::now();
  const Status status = plan.run(a, c, workspace_);
  const double elapsed = microseconds_since(start);
  if (!status.is_ok()) return status;
  return elapsed;
}

/// Floor and kernels once each: a run on the first copy, to wake the threads and fill the caches,
/// then warm on the same copy, then cold on the next one.
Status Bench::round(bool timed) {
  const auto copies = static_cast<std::size_t>(result_.num_copies);
  const auto next = [&] { return next_copy_ = (next_copy_ + 1) % copies; };
  time_floor(0);
  const double floor_warm = time_floor(0);
  const double floor_cold = time_floor(next());
  if (timed) {
    floor_warm_.push_back(floor_warm);
    floor_cold_.push_back(floor_cold);
  }
  for (Candidate& candidate : candidates_) {
    if (!candidate.takes_part() || (!timed && candidate.max_runs == 1)) continue;
    const auto heated = time_plan(candidate.plans.front(), shape_.m);
    if (!heated.is_ok()) return heated.status();
    const auto warm = time_plan(candidate.plans.front(), shape_.m);
    if (!warm.is_ok()) return warm.status();
    const auto cold = time_plan(candidate.plans[next()], shape_.m);
    if (!cold.is_ok()) return cold.status();
    if (timed) {
      candidate.warm.push_back(*warm);
      candidate.cold.push_back(*cold);
    }
  }
  return {};
}

/// Until the time is over and everyone has had its least number of runs.
Status Bench::measure() {
  if (const Status status = round(false); !status.is_ok()) return status;  // page faults
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < kMaxRounds; ++i) {
    if (i >= kMinRuns && microseconds_since(start) >= options_.seconds * 1e6) break;
    if (const Status status = round(true); !status.is_ok()) return status;
  }
  return {};
}

Result<ShapeTiming> Bench::run() {
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu) continue;
    const auto& names = options_.kernels;
    const bool named = std::find(names.begin(), names.end(), kernel.name) != names.end();
    if (names.empty() ? kernel.name == kReference || !kernel.runs_here : !named) continue;
    if (!kernel.runs_here) {
      candidates_.emplace_back().result.kernel = kernel.name;
      candidates_.back().result.skipped = kernel.why_not;
      continue;
    }
    const auto promise = options_.activation == Activation::mxfp4 ? kernel.mxfp4 : kernel.none;
    if (!promise && !named) continue;
    if (const Status status = prepare(kernel); !status.is_ok()) return status;
  }
  if (floor_copies_ != nullptr) {
    if (const Status status = measure(); !status.is_ok()) return status;
  }
  result_.floor_warm = summary(floor_warm_);
  result_.floor_cold = summary(floor_cold_);
  for (Candidate& candidate : candidates_) {
    candidate.result.warm = summary(candidate.warm);
    candidate.result.cold = summary(candidate.cold);
    candidate.result.runs = static_cast<std::int64_t>(candidate.warm.size());
    result_.kernels.push_back(candidate.result);
  }
  return result_;
}

}  // namespace

Result<ShapeTiming> measure_shape(const Shape& shape, const Weights& weights, std::string label,
                                  const BenchOptions& options, ThreadPool& threads) {
  Bench bench(shape, weights, options, threads);
  auto result = bench.run();
  if (result.is_ok()) result->label = std::move(label);
  return result;
}

Result<Weights> random_weights(std::int64_t n, std::int64_t k) {
  const Bf16Matrix values = random_activations(n, k, kSeed + 1);
  return Weights::quantize(values.view());
}

}  // namespace mxgemm::cli
