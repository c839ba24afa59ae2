// mxgemm bench: how fast the kernels are on shapes by hand, built in, or of a checkpoint.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_measure.h"
#include "bench_report.h"
#include "command.h"
#include "layers.h"
#include "machine.h"
#include "mxgemm/kernels.h"
#include "mxgemm/version.h"
#include "options.h"
#include "roof.h"
#include "shapes.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<Shape> shapes;
  std::string set;
  std::filesystem::path checkpoint;
  std::vector<std::int64_t>
      rows;  // M instead of the shapes' own, and for the layers of a checkpoint
  std::vector<int> threads = {0};
  std::vector<std::string> against;
  std::vector<const Distribution*> scales = {&distributions().front()};
  BenchOptions bench;
  bool json = false;
};

/// A shape to measure and its weights, made when its turn comes.
struct Case {
  Shape shape;
  std::string label;
  const Layer* layer = nullptr;  // none: random weights
};

Result<Weights> case_weights(const Case& item) {
  if (item.layer == nullptr) return random_weights(item.shape.n, item.shape.k);
  auto weights = layer_weights(*item.layer);
  if (weights.is_ok() && item.layer->stacked) return weights->slice(0);
  return weights;
}

/// The shapes, each once with its own M or with those asked for instead.
void add_cases(const std::vector<std::int64_t>& rows, const Case& item, std::vector<Case>& cases) {
  std::vector<Shape> shapes = {item.shape};
  if (!rows.empty()) shapes.clear();
  for (const std::int64_t m : rows) shapes.push_back({m, item.shape.n, item.shape.k});
  for (const Shape& shape : shapes) {
    const auto same = [&](const Case& other) {
      return other.shape.m == shape.m && other.shape.n == shape.n && other.shape.k == shape.k &&
             (other.layer == nullptr) == (item.layer == nullptr);
    };
    if (std::none_of(cases.begin(), cases.end(), same)) {
      cases.push_back({shape, item.label, item.layer});
    }
  }
}

std::vector<Case> make_cases(const Options& options, const std::vector<Layer>& layers) {
  std::vector<Case> cases;
  const bool nothing_asked = options.shapes.empty() && options.set.empty() && layers.empty();
  const std::string set = nothing_asked ? "all" : options.set;
  for (const Shape& shape : options.shapes) add_cases(options.rows, {shape, "given"}, cases);
  for (const NamedShape& row : kShapes) {
    if (set != row.set && set != "all") continue;
    add_cases(options.rows, {row.shape, std::string(row.set)}, cases);
  }
  const auto layer_rows = options.rows.empty() ? std::vector<std::int64_t>{1, 16} : options.rows;
  for (const Layer& layer : layers) {  // those of one size are alike
    add_cases(layer_rows, {{1, layer.n, layer.k}, layer.name, &layer}, cases);
  }
  return cases;
}

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

Result<std::vector<Layer>> open_layers(const std::filesystem::path& path,
                                       std::optional<io::Checkpoint>& checkpoint) {
  if (path.empty()) return std::vector<Layer>();
  auto opened = io::Checkpoint::open(path);
  if (!opened.is_ok()) return opened.status();
  checkpoint = std::move(*opened);
  auto found = find_layers(*checkpoint);
  if (found.is_ok() && found->empty()) {
    return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer", path.c_str());
  }
  return found;
}

Result<int> run(const Options& options) {
  for (const std::string& name : options.bench.kernels) {
    if (const Status status = check_kernel_name(name); !status.is_ok()) return status;
  }
  BenchOptions bench = options.bench;
  for (const std::string& name : options.against) {
    const auto baseline = find_baseline(name);
    if (!baseline.is_ok()) return baseline.status();
    bench.baselines.push_back(*baseline);
  }
  std::optional<io::Checkpoint> checkpoint;
  const auto layers = open_layers(options.checkpoint, checkpoint);
  if (!layers.is_ok()) return layers.status();
  const auto pools = make_pools(options);
  if (!pools.is_ok()) return pools.status();
  Json document = header(options, *pools);
  Tally tally;
  for (const Case& item : make_cases(options, *layers)) {
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

/// "1,2,4", and again: one list of what `parse` makes of each word. It replaces the default.
template <class T, class Parse>
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<T>& target, Parse parse,
                      const std::string& description) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&target, parse, name](const std::vector<std::string>& words) {
            target.clear();
            for (const std::string& word : words) {
              const auto value = parse(word);
              if (!value.is_ok()) throw CLI::ValidationError(name, value.status().c_str());
              target.push_back(static_cast<T>(*value));
            }
          },
          description)
      ->delimiter(',')
      ->allow_extra_args(false);
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
  sub->add_option_function<std::vector<std::string>>(
         "SHAPE",
         [options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto shape = parse_shape(text);
             if (!shape.is_ok()) throw CLI::ValidationError("SHAPE", shape.status().c_str());
             options->shapes.push_back(*shape);
           }
         },
         "Shapes M,N,K")
      ->type_name("M,N,K");
  sub->add_option("--shapes", options->set,
                  "Built-in shapes: original, llm, all (default when no "
                  "other shape is asked for: all)")
      ->check(CLI::IsMember({"original", "llm", "all"}))
      ->type_name("SET");
  sub->add_option("--checkpoint", options->checkpoint,
                  "The layers of a quantized checkpoint, one of each size")
      ->type_name("FILE");
  add_list(
      *sub, "--m", options->rows,
      [](std::string_view text) { return parse_int(text, 1, std::int64_t{1} << 20); },
      "Rows of A instead of the shapes' own, and for --checkpoint (default 1,16)")
      ->type_name("M,...");
  sub->add_option("--kernel", options->bench.kernels,
                  "Measure this kernel, may be repeated (default: all that run here but the "
                  "reference)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_list(
      *sub, "--threads", options->threads,
      [](std::string_view text) { return parse_int(text, 0, 1024); },
      "Threads to use, each number in turn; 0: all that this process may use (default 0)")
      ->type_name("N,...");
  add_parsed(
      *sub, "--time", options->bench.seconds,
      [](std::string_view text) -> Result<double> {
        auto seconds = parse_number(text);
        if (seconds.is_ok() && *seconds >= 0 && *seconds <= 3600) return seconds;
        return Status::error(StatusCode::invalid_argument, "\"%.*s\" is not from 0 to 3600 seconds",
                             static_cast<int>(text.size()), text.data());
      },
      "Seconds to spend on a shape (default 2)")
      ->type_name("SECONDS");
  add_activation(*sub, options->bench.activation);
  add_comparison(*sub, *options);
  sub->add_flag("--json", options->json, "As JSON");
  sub->footer("Example:\n  mxgemm bench 16,2112,7168 --threads 1");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
