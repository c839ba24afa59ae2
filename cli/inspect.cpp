// mxgemm inspect: what a checkpoint holds.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "command.h"
#include "inspect_gguf.h"
#include "io/gguf.h"
#include "io/text.h"
#include "layers.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::filesystem::path path;
  bool json = false;
};

/// The remark beside a tensor, and a problem if its pair doesn't fit.
struct Remark {  // NOLINT(bugprone-exception-escape): moving JSON does not throw
  std::string text, problem;
};

Remark describe_layer(const io::Checkpoint& checkpoint, const io::SafetensorsFile& file,
                      const io::TensorView& tensor, Json& layers) {
  const auto layer = read_layer(checkpoint, file, tensor);
  if (!layer.is_ok()) {
    const std::string problem(layer.status().message());
    layers.push_back({{"name", tensor.name}, {"problem", problem}});
    return {"not valid MXFP4", problem};
  }
  const ScaleRange range = scale_range(*layer);
  layer->scale_file->release(*layer->scales);
  Remark remark;
  Json json = {{"name", layer->name},  {"experts", layer->num_experts},   {"n", layer->n},
               {"k", layer->k},        {"scale_rule", layer->scale_rule}, {"scale_min", nullptr},
               {"scale_max", nullptr}, {"nan_scales", range.num_nan}};
  remark.text = "MXFP4";
  if (layer->stacked) remark.text += fmt::format(" E={}", layer->num_experts);
  remark.text += fmt::format(" N={} K={}", layer->n, layer->k);
  if (range.max >= 0) {
    json["scale_min"] = range.min;
    json["scale_max"] = range.max;
    remark.text += fmt::format(", scales 2^{}..2^{}", range.min - 127, range.max - 127);
  }
  if (range.num_nan > 0) remark.text += fmt::format(", {} NaN scales", range.num_nan);
  layers.push_back(std::move(json));
  return remark;
}

struct Totals {
  std::int64_t tensors = 0, bytes = 0, layers = 0;
  std::string first_problem;
};

Json inspect_file(const io::Checkpoint& checkpoint, const io::SafetensorsFile& file,
                  const Options& options, Json& layers, Totals& totals) {
  Json document = {
      {"path", file.name()}, {"metadata", file.metadata()}, {"tensors", Json::array()}};
  std::size_t width = 6;
  for (const io::TensorView& t : file.tensors()) width = std::max(width, t.name.size());
  width = std::min<std::size_t>(width, 60);
  if (!options.json) {
    fmt::print("{}\n", file.name());
    for (const auto& [key, value] : file.metadata())
      fmt::print("  {} = {}\n", io::printable(key), io::printable(value));
  }
  for (const io::TensorView& tensor : file.tensors()) {
    Remark remark;
    if (is_layer(checkpoint, tensor)) {
      remark = describe_layer(checkpoint, file, tensor, layers);
      ++totals.layers;
      if (totals.first_problem.empty()) totals.first_problem = remark.problem;
    }
    const auto bytes = static_cast<std::int64_t>(tensor.data.size());
    ++totals.tensors;
    totals.bytes += bytes;
    document["tensors"].push_back({{"name", tensor.name},
                                   {"dtype", tensor.dtype},
                                   {"shape", tensor.shape},
                                   {"bytes", bytes}});
    if (!options.json) {
      std::string line =
          fmt::format("  {:<{}}  {:<7}  {:<20}  {}", io::printable(tensor.name, 200), width,
                      tensor.dtype, io::shape_string(tensor.shape), remark.text);
      fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }
  return document;
}

Result<int> run(const Options& options) {
  if (io::GgufFile::has_magic(options.path)) return inspect_gguf(options.path, options.json);
  const auto checkpoint = io::Checkpoint::open(options.path);
  if (!checkpoint.is_ok()) return checkpoint.status();
  Json document = {{"files", Json::array()}, {"layers", Json::array()}};
  Totals totals;
  for (const io::SafetensorsFile& file : checkpoint->files()) {
    document["files"].push_back(
        inspect_file(*checkpoint, file, options, document["layers"], totals));
  }
  if (options.json) {
    print_json(document);
  } else {
    fmt::print("{} tensors, {}, {} MXFP4 layers\n", totals.tensors,
               bytes_string(static_cast<double>(totals.bytes)), totals.layers);
  }
  if (!totals.first_problem.empty()) {
    return Status::error(StatusCode::bad_data, "%s", totals.first_problem.c_str());
  }
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("inspect", "List tensors, MXFP4 layers and metadata");
  auto options = std::make_shared<Options>();
  sub->add_option("FILE", options->path, "A .safetensors file, a folder of them, or a GGUF file")
      ->required();
  sub->add_flag("--json", options->json, "As JSON");
  sub->footer("Example:\n  mxgemm inspect model-mxfp4.safetensors");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
