// mxgemm bench: how fast the kernels are on shapes by hand, built in, or of a checkpoint.
#include <fmt/core.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench_cases.h"
#include "bench_measure.h"
#include "bench_report.h"
#include "command.h"
#include "machine.h"
#include "mxgemm/kernels.h"
#include "mxgemm/version.h"
#include "options.h"
#include "roof.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  CaseOptions cases;
  std::vector<int> threads = {0};
  std::vector<std::string> against;
  std::vector<const Distribution*> scales = {&distributions().front()};
  BenchOptions bench;
  bool json = false;
};

Result<std::vector<std::unique_ptr<ThreadPool>>> make_pools(const Options& options) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int count : options.threads) {
    auto pool = ThreadPool::create(count);
    if (!pool.is_ok()) return pool.status();
    pools.push_back(std::move(*pool));
  }
  return pools;
}

Json header(const Options& options, std::span<const std::unique_ptr<ThreadPool>> pools) {
  Json document = {{"version", MXGEMM_VERSION},
                   {"cpu_isa", cpu_isa()},
                   {"threads", Json::array()},
                   {"last_level_cache_bytes", last_level_cache_bytes()},
                   {"peak_instruction", peak_instruction()},
                   {"activation", to_string(options.bench.activation)},
                   {"shapes", Json::array()}};
  for (const auto& pool : pools) document["threads"].push_back(pool->num_threads());
  return document;
}

struct Tally {
  bool wrong = false, measured = false;

  void add(const ShapeTiming& timing) {
    for (const auto* list : {&timing.kernels, &timing.baselines}) {
      for (const Contestant& contestant : *list) wrong |= !contestant.mismatch.empty();
    }
    for (const Contestant& kernel : timing.kernels) measured |= kernel.skipped.empty();
  }
};

Result<int> run(const Options& options) {
  if (const Status status = check_kernel_names(options.bench.kernels); !status.is_ok()) {
    return status;
  }
  BenchOptions bench = options.bench;
  for (const std::string& name : options.against) {
    const auto baseline = find_baseline(name);
    if (!baseline.is_ok()) return baseline.status();
    bench.baselines.push_back(*baseline);
  }
  const auto cases = Cases::make(options.cases);
  if (!cases.is_ok()) return cases.status();
  const auto pools = make_pools(options);
  if (!pools.is_ok()) return pools.status();
  Json document = header(options, *pools);
  Tally tally;
  for (const Case& item : cases->list()) {
    const auto weights = case_weights(item);
    if (!weights.is_ok()) return weights.status();
    for (const Distribution* scales : options.scales) {
      bench.scales = scales;
      const auto timings = measure_shape(item.shape, *weights, item.label, bench, *pools);
      if (!timings.is_ok()) return timings.status();
      for (const ShapeTiming& timing : *timings) {
        tally.add(timing);
        document["shapes"].push_back(to_json(timing, timings->front()));
        if (!options.json) print_timing(timing, timings->front());
      }
    }
  }
  if (options.json) print_json(document);
  if (!tally.measured) {
    return Status::error(StatusCode::unsupported, "no kernel could be measured here");
  }
  return tally.wrong ? kCheckFailed : kDone;
}

void add_comparison(CLI::App& app, Options& options) {
  app.add_option("--against", options.against,
                 "Other libraries to measure in turn with the kernels: onednn, openblas (built "
                 "in: " +
                     built_baselines() + ")")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  app.add_option_function<std::vector<std::string>>(
         "--scales",
         [&options](const std::vector<std::string>& words) {
           options.scales.clear();
           for (const std::string& word : words) {
             for (const Distribution& each : distributions()) {
               if (word == "all" || word == each.name) options.scales.push_back(&each);
             }
             const auto found = find_distribution(word);
             if (word != "all" && !found.is_ok()) {
               throw CLI::ValidationError("--scales", found.status().c_str());
             }
           }
         },
         "What the activations look like: gaussian (default), laplace, student4, student2.5, "
         "channels0.2x20, channels0.8x20, channels0.2x100, lognormal0.7, lognormal1.0, swiglu, "
         "swiglu-lognormal0.7, huge; all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KIND,...");
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("bench", "Check kernels, then time them");
  auto options = std::make_shared<Options>();
  options->cases.default_set = "all";
  options->cases.layer_rows = {1, 16};
  add_case_options(*sub, options->cases);
  add_kernel_names(*sub, options->bench.kernels);
  add_list(
      *sub, "--threads", options->threads,
      [](std::string_view text) { return parse_int(text, 0, 1024); },
      "Threads to use, each number in turn; 0: all that this process may use (default 0)")
      ->type_name("N,...");
  add_seconds(*sub, options->bench.seconds);
  add_activation(*sub, options->bench.activation);
  add_comparison(*sub, *options);
  sub->add_flag("--json", options->json, "As JSON");
  sub->footer("Example:\n  mxgemm bench 16,2112,7168 --threads 1");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
