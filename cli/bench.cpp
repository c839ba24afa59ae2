// mxgemm bench: how fast the kernels are on shapes by hand, built in, or of a checkpoint.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bench_measure.h"
#include "command.h"
#include "layers.h"
#include "mxgemm/kernels.h"
#include "mxgemm/version.h"
#include "options.h"
#include "read_floor.h"
#include "shapes.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<Shape> shapes;
  std::string set;
  std::filesystem::path checkpoint;
  std::vector<std::int64_t> rows;  // M for the layers of a checkpoint
  BenchOptions bench;
  int threads = 0;
  bool json = false;
};

double gigabytes(const ShapeTiming& shape, double us) {
  return static_cast<double>(shape.weight_bytes) / (us * 1e3);
}

double gops(const Shape& s, double us) {
  return 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) /
         (us * 1e3);
}

Json to_json(const ShapeTiming& shape, const Timing& timing, const Timing& floor) {
  return Json{{"median_us", timing.median_us},
              {"min_us", timing.min_us},
              {"weights_gb_s", json_number(gigabytes(shape, timing.median_us))},
              {"gops", json_number(gops(shape.shape, timing.median_us))},
              {"share_of_floor", json_number(floor.median_us / timing.median_us)}};
}

Json to_json(const ShapeTiming& shape) {
  Json document = {{"m", shape.shape.m},
                   {"n", shape.shape.n},
                   {"k", shape.shape.k},
                   {"label", shape.label},
                   {"weight_bytes", shape.weight_bytes},
                   {"copies", shape.num_copies},
                   {"checked", {shape.checked_rows, shape.checked_cols}},
                   {"floor_warm_us", shape.floor_warm.median_us},
                   {"floor_cold_us", shape.floor_cold.median_us},
                   {"kernels", Json::array()}};
  for (const KernelTiming& kernel : shape.kernels) {
    Json row = {{"kernel", kernel.kernel}};
    if (!kernel.skipped.empty()) {
      row["skipped"] = kernel.skipped;
    } else if (!kernel.mismatch.empty()) {
      row["mismatch"] = kernel.mismatch;
    } else {
      row["runs"] = kernel.runs;
      row["warm"] = to_json(shape, kernel.warm, shape.floor_warm);
      row["cold"] = to_json(shape, kernel.cold, shape.floor_cold);
    }
    document["kernels"].push_back(std::move(row));
  }
  return document;
}

void print_timing(const ShapeTiming& shape, const char* name, const Timing& timing,
                  const Timing& floor) {
  fmt::print(
      "    {}  median {:>10.1f} us  min {:>10.1f} us  {:>7.2f} GB/s  {:>8.1f} GOPS  {:>5.1f} "
      "% of floor\n",
      name, timing.median_us, timing.min_us, gigabytes(shape, timing.median_us),
      gops(shape.shape, timing.median_us), 100 * floor.median_us / timing.median_us);
}

void print_shape(const ShapeTiming& shape) {
  fmt::print(
      "M={} N={} K={} ({}), weights {}: floor warm {:.1f} us ({:.2f} GB/s), cold {:.1f} us "
      "({:.2f} GB/s); {} copies; {} x {} of C checked\n",
      shape.shape.m, shape.shape.n, shape.shape.k, shape.label,
      bytes_string(static_cast<double>(shape.weight_bytes)), shape.floor_warm.median_us,
      gigabytes(shape, shape.floor_warm.median_us), shape.floor_cold.median_us,
      gigabytes(shape, shape.floor_cold.median_us), shape.num_copies, shape.checked_rows,
      shape.checked_cols);
  for (const KernelTiming& kernel : shape.kernels) {
    if (!kernel.skipped.empty()) {
      fmt::print("  {}: skipped, {}\n", kernel.kernel, kernel.skipped);
    } else if (!kernel.mismatch.empty()) {
      fmt::print("  {}: MISMATCH, {}\n", kernel.kernel, kernel.mismatch);
    } else {
      fmt::print("  {}, {} runs\n", kernel.kernel, kernel.runs);
      print_timing(shape, "warm", kernel.warm, shape.floor_warm);
      print_timing(shape, "cold", kernel.cold, shape.floor_cold);
    }
  }
  std::fflush(stdout);
}

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

std::vector<Case> make_cases(const Options& options, const std::vector<Layer>& layers) {
  std::vector<Case> cases;
  const bool nothing_asked = options.shapes.empty() && options.set.empty() && layers.empty();
  const std::string set = nothing_asked ? "all" : options.set;
  for (const Shape& shape : options.shapes) cases.push_back({shape, "given"});
  for (const NamedShape& row : kShapes) {
    if (set == row.set || set == "all") {
      cases.push_back({row.shape, std::string(row.set)});
    }
  }
  std::set<std::pair<std::int64_t, std::int64_t>> seen;  // layers of one size are alike
  for (const Layer& layer : layers) {
    if (!seen.emplace(layer.n, layer.k).second) continue;
    for (const std::int64_t m : options.rows) {
      cases.push_back({{m, layer.n, layer.k}, layer.name, &layer});
    }
  }
  return cases;
}

Json header(const Options& options, const ThreadPool& threads) {
  return Json{{"version", MXGEMM_VERSION},
              {"cpu_isa", cpu_isa()},
              {"threads", threads.num_threads()},
              {"last_level_cache_bytes", last_level_cache_bytes()},
              {"activation", to_string(options.bench.activation)},
              {"shapes", Json::array()}};
}

Result<int> run(const Options& options) {
  for (const std::string& name : options.bench.kernels) {
    if (const Status status = check_kernel_name(name); !status.is_ok()) return status;
  }
  std::vector<Layer> layers;
  std::optional<io::Checkpoint> checkpoint;
  if (!options.checkpoint.empty()) {
    auto opened = io::Checkpoint::open(options.checkpoint);
    if (!opened.is_ok()) return opened.status();
    checkpoint = std::move(*opened);
    auto found = find_layers(*checkpoint);
    if (!found.is_ok()) return found.status();
    layers = std::move(*found);
    if (layers.empty()) {
      return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer",
                           options.checkpoint.c_str());
    }
  }
  const std::vector<Case> cases = make_cases(options, layers);
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  Json document = header(options, **threads);
  bool wrong = false, measured = false;
  for (const Case& item : cases) {
    const auto weights = case_weights(item);
    if (!weights.is_ok()) return weights.status();
    const auto timing = measure_shape(item.shape, *weights, item.label, options.bench, **threads);
    if (!timing.is_ok()) return timing.status();
    for (const KernelTiming& kernel : timing->kernels) {
      wrong |= !kernel.mismatch.empty();
      measured |= kernel.skipped.empty();
    }
    document["shapes"].push_back(to_json(*timing));
    if (!options.json) print_shape(*timing);
  }
  if (options.json) print_json(document);
  if (!measured) return Status::error(StatusCode::unsupported, "no kernel could be measured here");
  return wrong ? kCheckFailed : kDone;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("bench", "Check kernels, then time them");
  auto options = std::make_shared<Options>();
  options->rows = {1, 16};
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
  sub->add_option_function<std::vector<std::string>>(
         "--m",
         [options](const std::vector<std::string>& texts) {
           options->rows.clear();
           for (const std::string& text : texts) {
             const auto m = parse_int(text, 1, std::int64_t{1} << 20);
             if (!m.is_ok()) throw CLI::ValidationError("--m", m.status().c_str());
             options->rows.push_back(*m);
           }
         },
         "Rows of A for --checkpoint, may be repeated (default 1 and 16)")
      ->allow_extra_args(false)
      ->type_name("M");
  sub->add_option("--kernel", options->bench.kernels,
                  "Measure this kernel, may be repeated (default: all that run here but the "
                  "reference)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_threads(*sub, options->threads);
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
  sub->add_flag("--json", options->json, "As JSON");
  sub->footer("Example:\n  mxgemm bench 16,2112,7168 --threads 1");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
