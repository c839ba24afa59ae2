// mxgemm quantize: a float checkpoint becomes an MXFP4 one in AMD Quark's naming.
#include <fmt/core.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint_output.h"
#include "command.h"
#include "interrupt.h"
#include "io/text.h"
#include "layers.h"
#include "mxgemm/version.h"
#include "options.h"
#include "quantize_select.h"
#include "quantize_tensor.h"
#include "quark_config.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ConversionPaths paths;
  Selection selection;
  QuantizeOptions quantize;
  int threads = 0;
  bool json = false;
};

/// A tensor that stays float though it might be meant.
struct Kept {
  std::string name, reason;
};

struct Quantized {
  std::string name;
  std::vector<std::int64_t> shape;  // of the float tensor
  QuantStats stats;
};

std::string scale_power(int b) {
  return fmt::format("2^{}", b - 127);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.3f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(std::max<std::int64_t>(whole, 1)));
}

std::string describe(const Quantized& tensor) {
  const QuantStats& s = tensor.stats;
  std::string line =
      fmt::format("{} {}: SQNR {:.2f} dB, clipped {}, zeroed {}", io::printable(tensor.name, 200),
                  io::shape_string(tensor.shape), s.sqnr_db(), percent(s.clipped, s.elements),
                  percent(s.zeroed, s.elements));
  if (s.has_scales()) {
    line += fmt::format(", scales {}..{}", scale_power(s.scale_min), scale_power(s.scale_max));
  }
  if (s.non_finite > 0) {
    line += fmt::format(", {} values not finite ({} NaN blocks)", s.non_finite, s.nan_blocks);
  }
  return line;
}

Json to_json(const Quantized& tensor) {
  const QuantStats& s = tensor.stats;
  const auto elements = static_cast<double>(std::max<std::int64_t>(s.elements, 1));
  Json document = {{"name", tensor.name},
                   {"shape", tensor.shape},
                   {"sqnr_db", json_number(s.sqnr_db())},
                   {"clipped", static_cast<double>(s.clipped) / elements},
                   {"zeroed", static_cast<double>(s.zeroed) / elements},
                   {"scale_min", nullptr},
                   {"scale_max", nullptr},
                   {"non_finite", s.non_finite},
                   {"nan_blocks", s.nan_blocks}};
  if (s.has_scales()) {
    document["scale_min"] = s.scale_min;
    document["scale_max"] = s.scale_max;
  }
  return document;
}

class QuantizeConversion final : public Conversion {
 public:
  QuantizeConversion(const Options& options, const Selector& selector, ThreadPool& threads,
                     std::int64_t total_bytes)
      : options_(options), selector_(selector), threads_(threads), progress_(total_bytes) {}

  Result<OutputFile> plan(const io::SafetensorsFile& file) override;
  Status write(const io::SafetensorsFile& file, io::SafetensorsWriter& writer) override;
  Status edit_config(Json& config) override;

  const std::vector<Quantized>& quantized() const noexcept { return quantized_; }
  std::int64_t bytes_out() const noexcept { return bytes_out_; }

 private:
  const Options& options_;
  const Selector& selector_;
  ThreadPool& threads_;
  Progress progress_;
  std::vector<Quantized> quantized_;
  std::int64_t bytes_out_ = 0;
  std::vector<std::string> float_layers_;  // Quark's `exclude`
};

Result<OutputFile> QuantizeConversion::plan(const io::SafetensorsFile& file) {
  OutputFile out;
  Json k_of = Json::object();
  for (const io::TensorView& tensor : file.tensors()) {
    if (selector_.decide(tensor).verdict != Verdict::quantize) {
      out.add(tensor);
      continue;
    }
    const std::int64_t k = tensor.shape.back(), rows = tensor.num_elements() / k;
    std::vector<std::int64_t> codes = tensor.shape, scales = tensor.shape;
    codes.back() = codes_per_row_bytes(k);
    scales.back() = scales_per_row(k);
    out.add({tensor.name, "U8", codes}, rows * codes.back());
    out.add({scale_name(tensor.name), "U8", scales}, rows * scales.back());
    k_of[tensor.name] = k;
  }
  out.metadata = file.metadata();
  if (!k_of.empty()) {
    out.metadata[kKeyVersion] = MXGEMM_VERSION;
    out.metadata[kKeyScaleRule] = to_string(options_.quantize.rule);
    out.metadata[kKeyRounding] = "half_even";
    out.metadata[kKeyNonFinite] = to_string(options_.quantize.non_finite);
    out.metadata[kKeyK] = k_of.dump();
  }
  bytes_out_ += out.data_bytes;
  return out;
}

Status QuantizeConversion::write(const io::SafetensorsFile& file, io::SafetensorsWriter& writer) {
  for (const io::TensorView& tensor : file.tensors()) {
    const Decision decision = selector_.decide(tensor);
    if (decision.verdict != Verdict::quantize) {
      if (is_layer_weight(tensor)) float_layers_.push_back(layer_name(tensor.name));
      if (const Status status = copy_tensor(file, tensor, writer); !status.is_ok()) return status;
      progress_.advance(static_cast<std::int64_t>(tensor.data.size()));
      continue;
    }
    const auto x = io::as_float_matrix(tensor);
    if (!x.is_ok()) return x.status();
    Quantized result = {tensor.name, tensor.shape, {}};
    const Status status =
        quantize_tensor(*x, options_.quantize, threads_, writer, result.stats, progress_);
    if (!status.is_ok()) return status;
    file.release(tensor);
    progress_.line(describe(result), options_.json);
    quantized_.push_back(std::move(result));
  }
  return {};
}

Status QuantizeConversion::edit_config(Json& config) {
  config["quantization_config"] = quark_section(options_.quantize.rule, float_layers_);
  return {};
}

/// What the selection amounts to, before anything is written.
struct Survey {
  std::vector<Kept> kept;
  std::int64_t num_selected = 0, num_other = 0, bytes = 0;
};

Result<Survey> survey(const Options& options, const io::Checkpoint& checkpoint,
                      const Selector& selector) {
  Survey result;
  const auto bad = [](const std::string& sentence) {
    return Status::error(StatusCode::bad_data, "%s", sentence.c_str());
  };
  for (const io::SafetensorsFile& file : checkpoint.files()) {
    for (const io::TensorView& tensor : file.tensors()) {
      result.bytes += static_cast<std::int64_t>(tensor.data.size());
      if (is_layer(checkpoint, tensor)) {
        return bad(fmt::format("{} is already quantized: {} is {} with scales beside it",
                               file.name(), io::quote(tensor.name), tensor.dtype));
      }
      Decision decision = selector.decide(tensor);
      result.num_other += decision.verdict == Verdict::unasked;
      if (decision.verdict == Verdict::keep) result.kept.push_back({tensor.name, decision.reason});
      if (decision.verdict != Verdict::quantize) continue;
      ++result.num_selected;
      if (checkpoint.find(scale_name(tensor.name)).second != nullptr) {
        return bad(fmt::format("{}: the name {} is taken, the scales of {} need it", file.name(),
                               io::quote(scale_name(tensor.name)), io::quote(tensor.name)));
      }
    }
  }
  if (checkpoint.is_folder()) {
    const auto config = read_config(options.paths.in);
    if (!config.is_ok()) return config.status();
    if (config->is_object() && config->contains("quantization_config")) {
      return bad(fmt::format("{} is already quantized: its config.json has quantization_config",
                             options.paths.in.string()));
    }
  }
  if (result.num_selected == 0) {
    std::string sentence =
        fmt::format("{}: no tensor is to be quantized", options.paths.in.string());
    if (!result.kept.empty()) {
      sentence += fmt::format("; {} stays float: {}", io::quote(result.kept[0].name),
                              result.kept[0].reason);
    }
    return bad(sentence);
  }
  return result;
}

void print_report(const Options& options, const Survey& survey, const QuantizeConversion& done,
                  double seconds) {
  if (options.json) {
    Json document = {{"input", options.paths.in.string()},
                     {"output", options.paths.out.string()},
                     {"scale_rule", to_string(options.quantize.rule)},
                     {"non_finite", to_string(options.quantize.non_finite)},
                     {"quantized", Json::array()},
                     {"kept", Json::array()},
                     {"num_other", survey.num_other},
                     {"bytes_in", survey.bytes},
                     {"bytes_out", done.bytes_out()},
                     {"seconds", seconds}};
    for (const Quantized& tensor : done.quantized()) {
      document["quantized"].push_back(to_json(tensor));
    }
    for (const Kept& kept : survey.kept) {
      document["kept"].push_back({{"name", kept.name}, {"reason", kept.reason}});
    }
    print_json(document);
    return;
  }
  for (const Kept& kept : survey.kept)
    fmt::print("{} stays float: {}\n", io::printable(kept.name, 200), kept.reason);
  const auto in = static_cast<double>(survey.bytes), out = static_cast<double>(done.bytes_out());
  fmt::print(
      "{}: {} tensors quantized, {} kept float, {} others unchanged; {} -> {}, {:.2f} s "
      "({}/s)\n",
      options.paths.out.string(), done.quantized().size(), survey.kept.size(), survey.num_other,
      bytes_string(in), bytes_string(out), seconds, bytes_string(in / seconds));
}

Result<int> run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto selector = Selector::create(options.selection);
  if (!selector.is_ok()) return selector.status();
  const auto checkpoint = io::Checkpoint::open(options.paths.in);
  if (!checkpoint.is_ok()) return checkpoint.status();
  const Status output = check_output(options.paths, checkpoint->is_folder());
  if (!output.is_ok()) return output;
  const auto surveyed = survey(options, *checkpoint, *selector);
  if (!surveyed.is_ok()) return surveyed.status();
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  watch_signals();
  QuantizeConversion conversion(options, *selector, **threads, surveyed->bytes);
  const Status status = convert_checkpoint(options.paths, *checkpoint, conversion);
  if (!status.is_ok()) return status;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  print_report(options, *surveyed, conversion, elapsed.count());
  return kDone;
}

}  // namespace

void add_quantize(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("quantize", "Turn a float checkpoint into an MXFP4 one");
  auto options = std::make_shared<Options>();
  add_conversion_paths(*sub, options->paths);
  add_scale_rule(*sub, options->quantize.rule);
  add_non_finite(*sub, options->quantize.non_finite);
  sub->add_option("--include", options->selection.include,
                  "Quantize float tensors [N,K] or [E,N,K] whose name matches this regular "
                  "expression, instead of every matrix named *.weight; may be repeated")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  sub->add_option("--exclude", options->selection.exclude,
                  "Leave names float that match, besides embed|lm_head|norm; may be repeated")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  sub->add_flag_callback(
      "--no-default-exclude", [options] { options->selection.default_exclude = false; },
      "Do not leave names float only because they match embed|lm_head|norm");
  sub->add_flag("--short-block", options->selection.short_block,
                "Quantize tensors whose K is not a multiple of 32 as well");
  add_threads(*sub, options->threads);
  sub->add_flag("--json", options->json, "Report as JSON on stdout");
  sub->footer("Example:\n  mxgemm quantize model.safetensors -o model-mxfp4.safetensors");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
