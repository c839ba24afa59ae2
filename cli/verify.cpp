// mxgemm verify: every layer of a checkpoint, every kernel that runs here against the reference,
// and how far the quantized product is from the float one.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "activations.h"
#include "command.h"
#include "io/text.h"
#include "layers.h"
#include "options.h"
#include "oracle.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReference = "cpu_reference";
constexpr std::uint64_t kSeed = 20240607;

struct Options {
  std::filesystem::path file, original;
  std::int64_t m = 17;
  std::optional<double> min_sqnr;
  bool all_rows = false, json = false;
  int threads = 0;
};

struct LayerResult {
  std::string name;
  std::int64_t n = 0, k = 0, experts = 1;
  std::int64_t rows_checked = 0, row_step = 1;
  std::vector<std::string> bitwise, bounded;     // "kernel (mxfp4)"
  std::vector<std::string> skipped, mismatches;  // with the reason, the place
  double sqnr_db = 0, cosine = 0;
};

/// The reference computes about 1e8 products a second; this many a layer take a fraction of one.
constexpr std::int64_t kSampledProducts = std::int64_t{1} << 24;

std::int64_t choose_row_step(const Layer& layer, const Options& options) {
  if (options.all_rows) return 1;
  const std::int64_t products_a_row = std::max<std::int64_t>(options.m * layer.k, 1);
  const std::int64_t rows = std::max<std::int64_t>(kSampledProducts / products_a_row, 16);
  return (layer.rows() + rows - 1) / rows;
}

/// The sampled rows, as one matrix: products of rows don't depend on each other.
Mxfp4View sampled(const Layer& layer, std::int64_t step) {
  Mxfp4View view = layer.view();
  view.rows = (view.rows + step - 1) / step;
  view.codes_stride *= step;
  view.scales_stride *= step;
  return view;
}

class LayerCheck {
 public:
  LayerCheck(const Options& options, const Layer& layer, ThreadPool& threads)
      : options_(options), layer_(layer), threads_(threads) {
    result_.name = layer.name;
    result_.n = layer.n;
    result_.k = layer.k;
    result_.experts = layer.num_experts;
    result_.row_step = choose_row_step(layer, options);
    view_ = sampled(layer, result_.row_step);
    result_.rows_checked = view_.rows;
    random_ = random_activations(options.m, layer.k, kSeed);
    probes_ = probe_activations(options.m, layer.k);
  }

  Result<LayerResult> run(const io::Checkpoint* original);

 private:
  Status check_kernel(const KernelInfo& kernel, Activation activation, Reproducible promise);
  Status check_bits(const Weights& weights, const Bf16Matrix& a, const PlanOptions& options,
                    const std::string& label);
  Status measure_accuracy(const io::Checkpoint* original);
  Result<std::vector<float>> float_weights(const io::Checkpoint* original) const;

  const Options& options_;
  const Layer& layer_;
  ThreadPool& threads_;
  Mxfp4View view_;
  std::optional<Weights> weights_;
  std::map<std::pair<Activation, const Bf16Matrix*>, std::optional<Product>> references_;
  Bf16Matrix random_, probes_;
  LayerResult result_;
};

Status LayerCheck::check_bits(const Weights& weights, const Bf16Matrix& a,
                              const PlanOptions& options, const std::string& label) {
  const auto got = compute(weights, a.view(), options);
  if (!got.is_ok()) return got.status();
  auto& want = references_[{options.activation, &a}];
  if (!want) {
    PlanOptions reference = options;
    reference.kernel = kReference;
    auto computed = compute(*weights_, a.view(), reference);
    if (!computed.is_ok()) return computed.status();
    want = std::move(*computed);
  }
  if (const auto difference = differs_in_bits(*got, *want)) {
    result_.mismatches.push_back(label + ": " + *difference);
  }
  return {};
}

Status LayerCheck::check_kernel(const KernelInfo& kernel, Activation activation,
                                Reproducible promise) {
  const std::string label = fmt::format("{} ({})", kernel.name, to_string(activation));
  PlanOptions options;
  options.activation = activation;
  options.kernel = kernel.name;
  options.threads = &threads_;
  const bool bitwise = promise == Reproducible::device;
  options.reproducible = bitwise ? Reproducible::device : Reproducible::run;
  const auto packed = weights_for_kernel(*weights_, kernel.name, &threads_);
  if (!packed.is_ok()) return packed.status();
  const auto plan = Plan::create(Device::cpu(), *packed, options_.m, options);
  if (!plan.is_ok() && plan.status().code() == StatusCode::unsupported) {
    result_.skipped.push_back(label + ": " + plan.status().c_str());
    return {};
  }
  if (!plan.is_ok()) return plan.status();
  (bitwise ? result_.bitwise : result_.bounded).push_back(label);
  if (bitwise) {
    if (kernel.name == kReference) return {};  // what the others are compared with
    const Status status = check_bits(*packed, random_, options, label);
    return status.is_ok() ? check_bits(*packed, probes_, options, label) : status;
  }
  const auto got = compute(*packed, random_.view(), options);
  if (!got.is_ok()) return got.status();
  const auto want =
      expected_product(random_.view(), view_, activation, error_class_of(kernel, activation));
  if (!want.is_ok()) return want.status();
  if (const auto difference = exceeds_bound(*got, *want)) {
    result_.mismatches.push_back(label + ": " + *difference);
  }
  return {};
}

Result<std::vector<float>> LayerCheck::float_weights(const io::Checkpoint* original) const {
  if (original == nullptr) return to_float32(view_);
  const auto [file, tensor] = original->find(layer_.name);
  if (tensor == nullptr) {
    return Status::error(StatusCode::bad_data, "%s has no tensor %s", options_.original.c_str(),
                         io::quote(layer_.name).c_str());
  }
  auto matrix = io::as_float_matrix(*tensor);
  if (!matrix.is_ok()) return matrix.status();
  if (matrix->rows != layer_.rows() || matrix->cols != layer_.k) {
    return Status::error(StatusCode::bad_data, "%s: %s is %s, the layer has N = %lld, K = %lld",
                         file->name().c_str(), io::quote(layer_.name).c_str(),
                         io::shape_string(tensor->shape).c_str(), static_cast<long long>(layer_.n),
                         static_cast<long long>(layer_.k));
  }
  matrix->rows = view_.rows;
  matrix->row_stride *= result_.row_step;
  return to_float32(*matrix);
}

Status LayerCheck::measure_accuracy(const io::Checkpoint* original) {
  const auto w = float_weights(original);
  if (!w.is_ok()) return w.status();
  const std::vector<double> want = float_product(random_.view(), *w, view_.rows);
  const auto packed = weights_->pack(Device::cpu(), &threads_);
  if (!packed.is_ok()) return packed.status();
  PlanOptions options;
  options.threads = &threads_;
  const auto got = compute(*packed, random_.view(), options);
  if (!got.is_ok()) return got.status();
  double signal = 0, noise = 0, cross = 0, power = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto value = static_cast<double>(got->values[i]);
    signal += want[i] * want[i];
    noise += (value - want[i]) * (value - want[i]);
    cross += value * want[i];
    power += value * value;
  }
  result_.sqnr_db = 10 * std::log10(signal / noise);
  result_.cosine = cross / std::sqrt(signal * power);
  return {};
}

Result<LayerResult> LayerCheck::run(const io::Checkpoint* original) {
  // Without a step this is still one matrix of all experts' rows: their products are independent.
  Weights::Options how;
  how.scale_rule = layer_.scale_rule;
  how.keep_alive = layer_.file->keep_alive();  // the caller keeps the scales' file open
  auto weights = Weights::from_row_major(view_, how);
  if (!weights.is_ok()) return weights.status();
  weights_ = std::move(*weights);
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu || !kernel.runs_here) continue;
    for (const auto& [activation, promise] :
         {std::pair(Activation::mxfp4, kernel.mxfp4), std::pair(Activation::none, kernel.none)}) {
      if (!promise) continue;
      const Status status = check_kernel(kernel, activation, *promise);
      if (!status.is_ok()) return status;
    }
  }
  if (const Status status = measure_accuracy(original); !status.is_ok()) return status;
  return result_;
}

Json to_json(const LayerResult& layer) {
  return Json{{"name", layer.name},
              {"n", layer.n},
              {"k", layer.k},
              {"experts", layer.experts},
              {"rows_checked", layer.rows_checked},
              {"row_step", layer.row_step},
              {"bitwise", layer.bitwise},
              {"bounded", layer.bounded},
              {"skipped", layer.skipped},
              {"mismatches", layer.mismatches},
              {"sqnr_db", json_number(layer.sqnr_db)},
              {"cosine", json_number(layer.cosine)}};
}

void print_layer(const LayerResult& layer) {
  const std::string rows = layer.row_step == 1 ? fmt::format("all {} rows", layer.rows_checked)
                                               : fmt::format("{} of {} rows", layer.rows_checked,
                                                             layer.experts * layer.n);
  fmt::print(
      "{} N={} K={}{}, {}: {} kernels bitwise, {} within bounds{}; W4A4 against float: "
      "SQNR {:.2f} dB, cosine {:.5f}\n",
      io::printable(layer.name, 200), layer.n, layer.k,
      layer.experts > 1 ? fmt::format(" E={}", layer.experts) : "", rows, layer.bitwise.size(),
      layer.bounded.size(),
      layer.mismatches.empty() ? "" : fmt::format(", {} WRONG", layer.mismatches.size()),
      layer.sqnr_db, layer.cosine);
  for (const std::string& text : layer.skipped) fmt::print("  skipped {}\n", text);
  for (const std::string& text : layer.mismatches) fmt::print("  MISMATCH {}\n", text);
  std::fflush(stdout);
}

Result<int> run(const Options& options) {
  const auto checkpoint = io::Checkpoint::open(options.file);
  if (!checkpoint.is_ok()) return checkpoint.status();
  const auto layers = find_layers(*checkpoint);
  if (!layers.is_ok()) return layers.status();
  if (layers->empty()) {
    return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer; `mxgemm quantize` makes one",
                         options.file.c_str());
  }
  std::optional<io::Checkpoint> original;
  if (!options.original.empty()) {
    auto opened = io::Checkpoint::open(options.original);
    if (!opened.is_ok()) return opened.status();
    original = std::move(*opened);
  }
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  Json document = {{"float", options.original.empty() ? "dequantized" : options.original.string()},
                   {"m", options.m},
                   {"layers", Json::array()}};
  std::size_t num_mismatches = 0, num_below = 0;
  for (const Layer& layer : *layers) {
    LayerCheck check(options, layer, **threads);
    const auto result = check.run(original ? &*original : nullptr);
    if (!result.is_ok()) return result.status();
    num_mismatches += result->mismatches.size();
    const bool below = options.min_sqnr && !(result->sqnr_db >= *options.min_sqnr);  // NaN is below
    num_below += below;
    document["layers"].push_back(to_json(*result));
    if (!options.json) print_layer(*result);
    if (!options.json && below) fmt::print("  BELOW --min-sqnr\n");
  }
  document["mismatches"] = num_mismatches;
  document["below_min_sqnr"] = num_below;
  if (options.json) {
    print_json(document);
  } else {
    fmt::print("{} layers, M = {}: {}\n", layers->size(), options.m,
               num_mismatches == 0 ? "every kernel agrees with cpu_reference"
                                   : fmt::format("{} MISMATCHES", num_mismatches));
    if (num_below != 0) fmt::print("{} layers below --min-sqnr\n", num_below);
  }
  return num_mismatches == 0 && num_below == 0 ? kDone : kCheckFailed;
}

}  // namespace

void add_verify(CLI::App& app, Command& chosen) {
  CLI::App* sub =
      app.add_subcommand("verify", "Check every layer on every kernel, and W4A4 against float");
  auto options = std::make_shared<Options>();
  sub->add_option("FILE", options->file, "A quantized checkpoint, file or folder")->required();
  add_int(*sub, "--m", options->m, 1, 4096, "Rows of activations (default 17)")->type_name("M");
  sub->add_option("--float", options->original,
                  "The float checkpoint it was made from: W4A4 is compared with its weights "
                  "instead of the dequantized ones")
      ->type_name("ORIGINAL");
  add_parsed(*sub, "--min-sqnr", options->min_sqnr, parse_number,
             "Fail if W4A4 is further from float than this in any layer")
      ->type_name("DB");
  sub->add_flag("--all-rows", options->all_rows,
                "Check every row of a layer; otherwise a large one is sampled evenly");
  add_threads(*sub, options->threads);
  sub->add_flag("--json", options->json, "As JSON");
  sub->footer("Example:\n  mxgemm verify model-mxfp4.safetensors --float model.safetensors");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
