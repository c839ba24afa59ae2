// mxgemm dequantize: the inverse of quantize, an MXFP4 checkpoint becomes a float one.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

#include "checkpoint_output.h"
#include "command.h"
#include "dequantize_gguf.h"
#include "interrupt.h"
#include "io/gguf.h"
#include "io/text.h"
#include "layers.h"
#include "options.h"
#include "quantize_tensor.h"
#include "quark_config.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ConversionPaths paths;
  DType dtype = DType::bf16;
  int threads = 0;
};

class DequantizeConversion final : public Conversion {
 public:
  DequantizeConversion(const Options& options, const io::Checkpoint& checkpoint,
                       ThreadPool& threads, std::int64_t total_bytes)
      : options_(options), checkpoint_(checkpoint), threads_(threads), progress_(total_bytes) {}

  Result<OutputFile> plan(const io::SafetensorsFile& file) override;
  Status write(const io::SafetensorsFile& file, io::SafetensorsWriter& writer) override;
  Status edit_config(Json& config) override;

 private:
  /// Scales go away with the codes they belong to, which may lie in another file.
  bool is_scales(const io::TensorView& tensor) const;

  const Options& options_;
  const io::Checkpoint& checkpoint_;
  ThreadPool& threads_;
  Progress progress_;
};

bool DequantizeConversion::is_scales(const io::TensorView& tensor) const {
  constexpr std::string_view kSuffix = "_scale";
  if (!tensor.name.ends_with(kSuffix)) return false;
  const auto base = std::string_view(tensor.name).substr(0, tensor.name.size() - kSuffix.size());
  const io::TensorView* codes = checkpoint_.find(base).second;
  return codes != nullptr && is_layer(checkpoint_, *codes);
}

Result<OutputFile> DequantizeConversion::plan(const io::SafetensorsFile& file) {
  OutputFile out;
  for (const io::TensorView& tensor : file.tensors()) {
    if (is_scales(tensor)) continue;
    if (!is_layer(checkpoint_, tensor)) {
      out.add(tensor);
      continue;
    }
    const auto layer = read_layer(checkpoint_, file, tensor);
    if (!layer.is_ok()) return layer.status();
    std::vector<std::int64_t> shape = tensor.shape;
    shape.back() = layer->k;
    out.add({tensor.name, options_.dtype == DType::f32 ? "F32" : "BF16", shape},
            layer->rows() * layer->k * size_of(options_.dtype));
  }
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with("mxgemm.")) out.metadata[key] = value;
  }
  return out;
}

Status DequantizeConversion::write(const io::SafetensorsFile& file, io::SafetensorsWriter& writer) {
  for (const io::TensorView& tensor : file.tensors()) {
    if (is_scales(tensor)) continue;
    if (!is_layer(checkpoint_, tensor)) {
      if (const Status status = copy_tensor(file, tensor, writer); !status.is_ok()) return status;
      progress_.advance(static_cast<std::int64_t>(tensor.data.size()));
      continue;
    }
    const auto layer = read_layer(checkpoint_, file, tensor);
    if (!layer.is_ok()) return layer.status();
    const Status status =
        dequantize_tensor(layer->view(), options_.dtype, threads_, writer, progress_);
    if (!status.is_ok()) return status;
    file.release(tensor);
    layer->scale_file->release(*layer->scales);
    const ScaleRange range = scale_range(*layer);
    std::string line = fmt::format("{} [{} x {}] -> {}", io::printable(layer->name, 200),
                                   layer->rows(), layer->k, to_string(options_.dtype));
    if (range.num_nan > 0) line += fmt::format(", {} blocks are NaN", range.num_nan);
    progress_.line(line);
  }
  return {};
}

Status DequantizeConversion::edit_config(Json& config) {
  config.erase("quantization_config");
  return {};
}

/// A section of another tool means other tensors as well, which would be left as they are.
Status check_config(const std::filesystem::path& folder) {
  const auto config = read_config(folder);
  if (!config.is_ok()) return config.status();
  if (!config->is_object() || !config->contains("quantization_config")) return {};
  const Json& section = (*config)["quantization_config"];
  const std::string method =
      section.is_object() && section.contains("quant_method") && section["quant_method"].is_string()
          ? section["quant_method"].get<std::string>()
          : "";
  if (method == "quark") return {};
  return Status::error(StatusCode::unsupported,
                       "%s: config.json has quant_method %s, only \"quark\" can be undone",
                       folder.c_str(), io::quote(method).c_str());
}

Result<int> run(const Options& options) {
  if (io::GgufFile::has_magic(options.paths.in)) {
    const auto threads = ThreadPool::create(options.threads);
    if (!threads.is_ok()) return threads.status();
    return dequantize_gguf(options.paths, options.dtype, **threads);
  }
  const auto checkpoint = io::Checkpoint::open(options.paths.in);
  if (!checkpoint.is_ok()) return checkpoint.status();
  const Status output = check_output(options.paths, checkpoint->is_folder());
  if (!output.is_ok()) return output;
  const auto layers = find_layers(*checkpoint);
  if (!layers.is_ok()) return layers.status();
  if (layers->empty()) {
    return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer", options.paths.in.c_str());
  }
  if (checkpoint->is_folder()) {
    if (const Status status = check_config(options.paths.in); !status.is_ok()) return status;
  }
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  std::int64_t bytes = 0;
  for (const io::SafetensorsFile& file : checkpoint->files()) {
    for (const io::TensorView& t : file.tensors())
      bytes += static_cast<std::int64_t>(t.data.size());
  }
  watch_signals();
  DequantizeConversion conversion(options, *checkpoint, **threads, bytes);
  const Status status = convert_checkpoint(options.paths, *checkpoint, conversion);
  if (!status.is_ok()) return status;
  fmt::print("{}: {} layers dequantized\n", options.paths.out.string(), layers->size());
  return kDone;
}

}  // namespace

void add_dequantize(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("dequantize", "Turn an MXFP4 checkpoint back into floats");
  auto options = std::make_shared<Options>();
  add_conversion_paths(*sub, options->paths);
  add_parsed(*sub, "--dtype", options->dtype, parse_out_dtype, "Type to write: bf16 or f32")
      ->required()
      ->type_name("DTYPE");
  add_threads(*sub, options->threads);
  sub->footer(
      "Example:\n  mxgemm dequantize model-mxfp4.safetensors -o model.safetensors --dtype bf16");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
