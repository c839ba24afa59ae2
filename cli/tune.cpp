// mxgemm tune: measures every config of every kernel on some shapes and keeps the fastest as a
// tuning table.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/tuning_impl.h"
#include "bench_cases.h"
#include "bench_measure.h"
#include "command.h"
#include "io/atomic_file.h"
#include "mxgemm/threads.h"
#include "options.h"
#include "plan/config.h"
#include "tune_rows.h"

namespace mxgemm::cli {
namespace {

// What is so much slower at first sight never comes out first; measuring it takes the time of all.
constexpr double kHopeless = 8;

struct Options {
  CaseOptions cases;
  BenchOptions bench;
  int threads = 0;
  std::filesystem::path out;
  bool force = false;
};

void print_candidates(const ShapeTiming& timing, const std::vector<TuningRow>& rows) {
  fmt::print("M={} N={} K={} ({}): reading the weights takes {:.1f} us; {} x {} of C checked\n",
             timing.shape.m, timing.shape.n, timing.shape.k, timing.label,
             timing.floor_cold.median_us, timing.checked_rows, timing.checked_cols);
  for (const Contestant& kernel : timing.kernels) {
    const Config config = kernel.config.value_or(Config{});
    std::string text = kernel.name;
    if (kernel.config) text += fmt::format(" ({})", to_string(config));
    if (!kernel.skipped.empty()) {
      fmt::print("  {}: skipped, {}\n", text, kernel.skipped);
    } else if (!kernel.mismatch.empty()) {
      fmt::print("  {}: MISMATCH, {}\n", text, kernel.mismatch);
    } else {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const TuningRow& r) {
        return r.kernel == kernel.name && r.config == config;
      });
      fmt::print("  {}: {:.1f} us (warm {:.1f}), {:.1f} % of the floor{}\n", text,
                 kernel.cold.median_us, kernel.warm.median_us,
                 100 * timing.floor_cold.median_us / kernel.cold.median_us,
                 row == rows.end()     ? ""
                 : row == rows.begin() ? ", the fastest"
                                       : ", the fastest that promises more");
    }
  }
  std::fflush(stdout);
}

/// Measures all cases. False: a kernel gave a wrong result.
Result<bool> measure(const Options& options, const Cases& cases,
                     const std::unique_ptr<ThreadPool>& threads, MeasuredRows& measured) {
  bool right = true;
  for (const Case& item : cases.list()) {
    const auto weights = case_weights(item);
    if (!weights.is_ok()) return weights.status();
    const auto timings =
        measure_shape(item.shape, *weights, item.label, options.bench, {&threads, 1});
    if (!timings.is_ok()) return timings.status();
    const ShapeTiming& timing = timings->front();
    const auto rows = best_rows(timing, options.bench.activation);
    add_rows(measured, rows);
    print_candidates(timing, rows);
    for (const Contestant& kernel : timing.kernels) right &= kernel.mismatch.empty();
  }
  return right;
}

Result<int> run(Options options) {
  if (const Status status = check_kernel_names(options.bench.kernels); !status.is_ok()) {
    return status;
  }
  const auto cases = Cases::make(options.cases);
  if (!cases.is_ok()) return cases.status();
  std::optional<Tuning> old;
  if (!options.out.empty()) {  // before the measurements, so that they are not lost
    auto table = existing_table(options.out, options.force);
    if (!table.is_ok()) return table.status();
    old = std::move(*table);
  }
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  options.bench.every_config = true;
  options.bench.max_slowdown = kHopeless;
  MeasuredRows measured;
  const auto right = measure(options, *cases, *threads, measured);
  if (!right.is_ok()) return right.status();
  if (measured.rows.empty()) {
    return Status::error(StatusCode::unsupported, "no kernel could be measured here");
  }
  fmt::print("\nRows for src/plan/tuning_cpu.inc:\n");
  for (const TuningRow& row : measured.rows) fmt::print("{}\n", inc_row(row));
  const auto table =
      merged_table(old ? std::span(old->impl().rows) : std::span<const TuningRow>(), measured.rows);
  if (!table.is_ok()) return table.status();
  if (options.out.empty()) {
    fmt::print("\nTable for MXGEMM_TUNING (-o FILE writes it):\n{}", *table);
  } else {
    const Status written = io::write_file(options.out, *table);
    if (!written.is_ok()) return written;
    fmt::print("\n{}: {} rows measured now, {} there before\n", options.out.string(),
               measured.rows.size(), old ? old->num_rows() : 0);
  }
  return *right ? kDone : kCheckFailed;
}

}  // namespace

void add_tune(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("tune", "Find the fastest kernels and keep them in a table");
  auto options = std::make_shared<Options>();
  options->cases.layer_rows = {1, 4, 16, 64, 256};
  add_case_options(*sub, options->cases);
  add_kernel_names(*sub, options->bench.kernels);
  add_activation(*sub, options->bench.activation);
  add_threads(*sub, options->threads);
  add_seconds(*sub, options->bench.seconds);
  sub->add_option("-o,--output", options->out, "Table to write, or to add to")->type_name("FILE");
  sub->add_flag("--force", options->force, "Replace FILE if it is no table of this build");
  sub->footer("Example:\n  mxgemm tune --checkpoint model-mxfp4.safetensors -o tuning.txt");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
