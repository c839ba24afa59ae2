#include "bench_measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <thread>
#include <utility>

#include "activations.h"
#include "bench_check.h"
#include "forced_config.h"
#include "huge_buffer.h"
#include "layers.h"
#include "machine.h"
#include "mxgemm/kernels.h"
#include "oracle.h"
#include "roof.h"

namespace mxgemm::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kReference = "cpu_reference";
constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kMaxCopyBytes = std::int64_t{1} << 30, kMaxCopies = 4096;
constexpr std::int64_t kMinRuns = 5, kMaxRounds = 2000;
constexpr std::int64_t kTrialRows = 17;  // of A, to see how slow a kernel is
constexpr int kShortTrials = 2;          // more of them for runs below
constexpr double kShortUs = 2e4;         // some time slices of the system's scheduler

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

Timing summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  if (n == 0) return {};
  return {(times[n / 2] + times[(n - 1) / 2]) / 2, times.front()};
}

/// So many that a copy has left the last-level cache before its turn comes again.
std::int64_t copies_of(std::int64_t bytes) {
  const std::int64_t wanted = 4 * last_level_cache_bytes() / bytes + 2;
  const std::int64_t affordable = std::min(available_memory_bytes() / 4, kMaxCopyBytes) / bytes;
  return std::clamp<std::int64_t>(std::min(wanted, affordable), 2, kMaxCopies);
}

/// The copy after this one, in turn; never the first, which the warm runs use.
std::int64_t next_cold(std::int64_t copy, std::int64_t num_copies) {
  return copy % (num_copies - 1) + 1;
}

/// Waits until all threads of the process sleep. Those of other libraries spin for up to tens of
/// milliseconds after their last work, on the processors that the next contestant needs.
void settle() {
  const auto cpu_us = [] { return static_cast<double>(std::clock()) * 1e6 / CLOCKS_PER_SEC; };
  for (int i = 0; i < 100; ++i) {
    const auto start = Clock::now();
    const double used = cpu_us();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (cpu_us() - used < 0.1 * microseconds_since(start)) return;
  }
}

/// A kernel or a baseline with one number of threads.
struct Runner {
  Contestant result;
  std::vector<Plan> plans;             // a kernel's, one for each copy of the weights
  std::unique_ptr<Baseline> baseline;  // or this
  std::int64_t num_copies = 0, next_copy = 0;
  std::int64_t max_runs = kMaxRounds;
  double first_us = 0;             // an estimate from a few rows
  std::vector<double> warm, cold;  // microseconds

  bool takes_part() const {
    return result.measured() && static_cast<std::int64_t>(warm.size()) < max_runs;
  }
};

/// What is measured with one number of threads.
struct Team {
  explicit Team(ThreadPool& pool) : threads(pool), together(pool) {}
  ThreadPool& threads;
  Together together;
  ReadRoof::Streams streams;
  std::vector<double> floor_warm, floor_cold, peak;
  std::vector<Runner> runners;
};

class Bench {
 public:
  Bench(const Shape& shape, const Weights& weights, const BenchOptions& options,
        std::span<const std::unique_ptr<ThreadPool>> pools)
      : shape_(shape),
        weights_(weights),
        options_(options),
        num_copies_(copies_of(weights.bytes())),
        a_(static_cast<std::size_t>(shape.m * shape.k) * sizeof(bf16)),
        c_(static_cast<std::size_t>(shape.m * shape.n) * sizeof(bf16)),
        check_(a(), weights, options.activation),
        roof_(weights.bytes(), num_copies_) {
    const Bf16Matrix values = random_activations(shape.m, shape.k, kSeed, *options.scales);
    std::memcpy(a_.data(), values.values.data(), a_.size());
    for (const auto& pool : pools) teams_.push_back(std::make_unique<Team>(*pool));
  }

  Result<std::vector<ShapeTiming>> run();

 private:
  ConstMatrix a() const { return {a_.data(), DType::bf16, shape_.m, shape_.k, shape_.k}; }
  std::span<std::byte> workspace() const { return {workspace_.data(), workspace_.size()}; }
  Result<const std::vector<Weights>*> copies(const Weights& packed, ThreadPool& threads);
  Status add_kernels(Team& team);
  void skip_slow_kernels(Team& team) const;
  Status prepare(const KernelInfo& kernel, const std::optional<Config>& config, Team& team);
  Status prepare(const BaselineInfo& info, Team& team);
  void limit_runs(Runner& runner) const;
  Status measure();
  Status round(Team& team, bool timed);
  Status round(Runner& runner, bool timed);
  Result<double> time(const Runner& runner, std::int64_t copy, std::int64_t rows) const;
  ShapeTiming result(const Team& team) const;

  Shape shape_;
  const Weights& weights_;
  const BenchOptions& options_;
  std::int64_t num_copies_;
  HugeBuffer a_, c_, workspace_;
  BenchCheck check_;
  ReadRoof roof_;
  std::map<Layout, std::vector<Weights>> copies_;
  std::vector<std::unique_ptr<Team>> teams_;
  std::int64_t next_copy_ = 0;
};

Result<const std::vector<Weights>*> Bench::copies(const Weights& packed, ThreadPool& threads) {
  std::vector<Weights>& list = copies_[packed.layout()];
  while (list.size() < static_cast<std::size_t>(num_copies_)) {
    auto copy = weights_.to_layout(packed.layout(), &threads);
    if (!copy.is_ok()) return copy.status();
    list.push_back(std::move(*copy));
  }
  return &list;
}

Status Bench::add_kernels(Team& team) {
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu) continue;
    const auto& names = options_.kernels;
    const bool named = std::find(names.begin(), names.end(), kernel.name) != names.end();
    if (names.empty() ? kernel.name == kReference || !kernel.runs_here : !named) continue;
    if (!kernel.runs_here) {
      Contestant& result = team.runners.emplace_back().result;
      result.name = kernel.name;
      result.skipped = kernel.why_not;
      continue;
    }
    const auto promise = options_.activation == Activation::mxfp4 ? kernel.mxfp4 : kernel.none;
    if (!promise && !named) continue;
    std::vector<std::optional<Config>> configs = {std::nullopt};
    if (options_.every_config && promise) {
      const auto& all = find_kernel(kernel.name)->configs;
      configs.assign(all.begin(), all.end());
    }
    for (const auto& config : configs) {
      if (const Status status = prepare(kernel, config, team); !status.is_ok()) return status;
    }
  }
  if (options_.max_slowdown > 0 && options_.kernels.empty()) skip_slow_kernels(team);
  return {};
}

/// Whoever is hopeless would only take time from the others.
void Bench::skip_slow_kernels(Team& team) const {
  double fastest = 0;
  for (const Runner& runner : team.runners) {
    if (!runner.takes_part()) continue;
    if (fastest == 0 || runner.first_us < fastest) fastest = runner.first_us;
  }
  for (Runner& runner : team.runners) {
    if (!runner.takes_part() || runner.first_us <= options_.max_slowdown * fastest) continue;
    runner.result.skipped =
        fmt::format("its first runs took {:.0f} times the fastest one's; --kernel measures it",
                    runner.first_us / fastest);
  }
}

Status Bench::prepare(const KernelInfo& kernel, const std::optional<Config>& config, Team& team) {
  const auto packed = weights_for_kernel(weights_, kernel.name, &team.threads);
  if (!packed.is_ok()) return packed.status();
  const auto list = copies(*packed, team.threads);
  if (!list.is_ok()) return list.status();
  Runner& runner = team.runners.emplace_back();
  runner.result.name = kernel.name;
  runner.result.config = config;
  runner.result.weight_bytes = weights_.bytes();
  runner.num_copies = num_copies_;
  PlanOptions options;
  options.activation = options_.activation;
  options.kernel = kernel.name;
  options.threads = &team.threads;
  std::optional<Tuning> table;
  if (config) {
    auto forced = config_table(kernel.name, *config, shape_, options_.activation);
    if (!forced.is_ok()) return forced.status();
    table = std::move(*forced);
    options.tuning = &*table;
  }
  for (const Weights& weights : **list) {
    auto plan = Plan::create(Device::cpu(), weights, shape_.m, options);
    if (!plan.is_ok() && plan.status().code() != StatusCode::unsupported) return plan.status();
    if (!plan.is_ok()) {
      runner.result.skipped = plan.status().c_str();
      return {};
    }
    runner.plans.push_back(std::move(*plan));
  }
  const Plan& plan = runner.plans.front();
  if (plan.workspace_bytes() > workspace_.size()) workspace_ = HugeBuffer(plan.workspace_bytes());
  const std::int64_t rows = std::min(shape_.m, kTrialRows);
  auto us = time(runner, 0, rows);
  // A short run may have met an interruption that is far longer than itself.
  for (int i = 0; i < kShortTrials && us.is_ok() && *us < kShortUs; ++i) {
    const auto again = time(runner, 0, rows);
    if (!again.is_ok()) return again.status();
    us = std::min(*us, *again);
  }
  if (!us.is_ok()) return us.status();
  runner.first_us = *us * static_cast<double>(shape_.m) / static_cast<double>(rows);
  limit_runs(runner);
  if (!runner.result.skipped.empty()) return {};
  auto mismatch = check_.check(kernel, plan, workspace());
  if (!mismatch.is_ok()) return mismatch.status();
  runner.result.mismatch = std::move(*mismatch);
  return {};
}

Status Bench::prepare(const BaselineInfo& info, Team& team) {
  Runner& runner = team.runners.emplace_back();
  runner.result.name = info.name;
  runner.result.weight_bytes = shape_.n * shape_.k * info.weight_bits / 8;
  runner.num_copies = copies_of(runner.result.weight_bytes);
  const auto w =
      to_float32(mxfp4_view(weights_.codes().data(), weights_.scales().data(), shape_.n, shape_.k));
  if (!w.is_ok()) return w.status();
  auto baseline = make_baseline(info, {.shape = shape_,
                                       .a = a_.as<bf16>(),
                                       .w = w->data(),
                                       .num_copies = runner.num_copies,
                                       .num_threads = team.threads.num_threads()});
  if (!baseline.is_ok()) {
    runner.result.skipped = baseline.status().c_str();
    return {};
  }
  runner.baseline = std::move(*baseline);
  runner.result.description = runner.baseline->description();
  const auto us = time(runner, 0, shape_.m);
  if (!us.is_ok()) return us.status();
  auto mismatch = check_.check(*runner.baseline);
  if (!mismatch.is_ok()) return mismatch.status();
  runner.result.mismatch = std::move(*mismatch);
  runner.first_us = *us;
  limit_runs(runner);
  return {};
}

/// From the time of its first runs: how often the runner may run, or that it is too slow to be
/// measured unless it was named.
void Bench::limit_runs(Runner& runner) const {
  const double seconds = runner.first_us * 1e-6;
  const double budget = std::max(options_.seconds, 0.5);
  if (runner.baseline == nullptr && options_.kernels.empty() && seconds > 5 * budget) {
    runner.result.skipped =
        fmt::format("a run takes about {:.0f} s; --kernel measures it all the same", seconds);
  }
  if (seconds > budget / 10) runner.max_runs = kMinRuns;
  if (seconds > budget) runner.max_runs = 1;
}

/// Microseconds of one run on so many rows of A; a baseline always takes all.
Result<double> Bench::time(const Runner& runner, std::int64_t copy, std::int64_t rows) const {
  const Matrix c(c_.data(), DType::bf16, rows, shape_.n, shape_.n);
  ConstMatrix a_rows = a();
  a_rows.rows = rows;
  const auto start = Clock::now();
  const Status status =
      runner.baseline != nullptr
          ? runner.baseline->run(copy)
          : runner.plans[static_cast<std::size_t>(copy)].run(a_rows, c, workspace());
  const double elapsed = microseconds_since(start);
  if (!status.is_ok()) return status;
  return elapsed;
}

/// A run on the first copy, to wake the threads and fill the caches, then warm on the same copy,
/// then cold on the next one.
Status Bench::round(Runner& runner, bool timed) {
  if (!runner.takes_part() || (!timed && runner.max_runs == 1)) return {};
  std::int64_t& next = runner.baseline != nullptr ? runner.next_copy : next_copy_;
  next = next_cold(next, runner.num_copies);
  const auto woken = time(runner, 0, shape_.m);
  if (!woken.is_ok()) return woken.status();
  const auto warm = time(runner, 0, shape_.m);
  if (!warm.is_ok()) return warm.status();
  const auto cold = time(runner, next, shape_.m);
  if (!cold.is_ok()) return cold.status();
  if (timed) {
    runner.warm.push_back(*warm);
    runner.cold.push_back(*cold);
  }
  return {};
}

Status Bench::round(Team& team, bool timed) {
  const bool parallel = team.threads.num_threads() > 1;
  if (teams_.size() > 1) settle();
  next_copy_ = next_cold(next_copy_, num_copies_);
  roof_.read_us(0, team.streams.warm, team.together);
  const double floor_warm = roof_.read_us(0, team.streams.warm, team.together);
  const double floor_cold = roof_.read_us(next_copy_, team.streams.cold, team.together);
  const double peak = peak_gops(team.together);
  if (timed) {
    team.floor_warm.push_back(floor_warm);
    team.floor_cold.push_back(floor_cold);
    team.peak.push_back(peak);
  }
  for (Runner& runner : team.runners) {
    if (parallel && runner.baseline != nullptr) settle();
    if (const Status status = round(runner, timed); !status.is_ok()) return status;
  }
  // The next round's floor must not meet a baseline's threads either.
  if (parallel && !options_.baselines.empty() && teams_.size() == 1) settle();
  return {};
}

/// Until the time is over and everyone has had its least number of runs.
Status Bench::measure() {
  for (const auto& team : teams_) {  // page faults
    team->streams = roof_.best_streams(team->together);
    if (const Status status = round(*team, false); !status.is_ok()) return status;
  }
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < kMaxRounds; ++i) {
    if (i >= kMinRuns && microseconds_since(start) >= options_.seconds * 1e6) break;
    for (const auto& team : teams_) {
      if (const Status status = round(*team, true); !status.is_ok()) return status;
    }
  }
  return {};
}

ShapeTiming Bench::result(const Team& team) const {
  ShapeTiming timing;
  timing.shape = shape_;
  timing.scales = options_.scales->name;
  timing.num_threads = team.threads.num_threads();
  timing.weight_bytes = weights_.bytes();
  timing.num_copies = num_copies_;
  timing.checked_rows = check_.num_rows();
  timing.checked_cols = check_.num_cols();
  timing.floor_warm = summary(team.floor_warm);
  timing.floor_cold = summary(team.floor_cold);
  timing.peak_gops = summary(team.peak).median_us;
  for (const Runner& runner : team.runners) {
    Contestant contestant = runner.result;
    contestant.warm = summary(runner.warm);
    contestant.cold = summary(runner.cold);
    contestant.runs = static_cast<std::int64_t>(runner.warm.size());
    const bool is_baseline = std::any_of(options_.baselines.begin(), options_.baselines.end(),
                                         [&](const auto* b) { return b->name == contestant.name; });
    (is_baseline ? timing.baselines : timing.kernels).push_back(std::move(contestant));
  }
  return timing;
}

Result<std::vector<ShapeTiming>> Bench::run() {
  bool any = false;
  for (const auto& team : teams_) {
    if (const Status status = add_kernels(*team); !status.is_ok()) return status;
    for (const Runner& runner : team->runners) any |= runner.result.measured();
    for (const BaselineInfo* info : options_.baselines) {
      if (const Status status = prepare(*info, *team); !status.is_ok()) return status;
    }
  }
  if (any) {
    if (const Status status = measure(); !status.is_ok()) return status;
  }
  std::vector<ShapeTiming> results;
  for (const auto& team : teams_) results.push_back(result(*team));
  return results;
}

}  // namespace

double ShapeTiming::operations() const {
  return 2 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k);
}

double ShapeTiming::compute_us() const {
  return peak_gops > 0 ? operations() / (peak_gops * 1e3) : 0;
}

double ShapeTiming::roof_us(const Timing& floor) const {
  return std::max(floor.median_us, compute_us());
}

Result<std::vector<ShapeTiming>> measure_shape(const Shape& shape, const Weights& weights,
                                               const std::string& label,
                                               const BenchOptions& options,
                                               std::span<const std::unique_ptr<ThreadPool>> pools) {
  Bench bench(shape, weights, options, pools);
  auto results = bench.run();
  if (results.is_ok()) {
    for (ShapeTiming& timing : *results) timing.label = label;
  }
  return results;
}

Result<Weights> random_weights(std::int64_t n, std::int64_t k) {
  const Bf16Matrix values = random_activations(n, k, kSeed + 1);
  return Weights::quantize(values.view());
}

}  // namespace mxgemm::cli
