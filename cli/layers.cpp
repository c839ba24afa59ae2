#include "layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/mxfp4.h"
#include "io/text.h"
#include "mxgemm/kernels.h"
#include "quark_config.h"

namespace mxgemm::cli {
namespace {

bool is_codes(const io::TensorView& t) {
  return t.dtype == "U8" || t.dtype == "I8" || t.dtype == "F4";
}
bool is_scales(const io::TensorView& t) {
  return t.dtype == "U8" || t.dtype == "F8_E8M0";
}

bool is_float(const io::TensorView& t) {
  return t.dtype == "F32" || t.dtype == "F16" || t.dtype == "BF16";
}

Status bad_layer(const Layer& layer, const std::string& what) {
  return Status::error(StatusCode::bad_data, "%s: %s %s", layer.file->name().c_str(),
                       io::quote(layer.name).c_str(), what.c_str());
}

/// K of a tensor from the file's metadata; 0 when it says nothing.
Result<std::int64_t> recorded_k(const Layer& layer) {
  const auto entry = layer.file->metadata().find(kKeyK);
  if (entry == layer.file->metadata().end()) return std::int64_t{0};
  const auto map = nlohmann::json::parse(entry->second, nullptr, false);
  if (!map.is_object()) return bad_layer(layer, "needs metadata mxgemm.k to be a JSON object");
  const auto found = map.find(layer.name);
  if (found == map.end()) return std::int64_t{0};
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > (std::uint64_t{1} << 62)) {
    return bad_layer(layer, "has a metadata mxgemm.k that is not a whole number");
  }
  return found->get<std::int64_t>();
}

}  // namespace

Mxfp4View Layer::view() const noexcept {
  return mxfp4_view(codes->data.data(), scales->data.data(), rows(), k);
}

bool is_layer(const io::Checkpoint& checkpoint, const io::TensorView& tensor) {
  if (!is_codes(tensor)) return false;
  const io::TensorView* scales = checkpoint.find(scale_name(tensor.name)).second;
  return scales != nullptr && is_scales(*scales);
}

Result<Layer> read_layer(const io::Checkpoint& checkpoint, const io::SafetensorsFile& file,
                         const io::TensorView& tensor) {
  Layer layer;
  layer.name = tensor.name;
  layer.file = &file;
  layer.codes = &tensor;
  std::tie(layer.scale_file, layer.scales) = checkpoint.find(scale_name(tensor.name));
  const auto &codes = tensor.shape, &scales = layer.scales->shape;
  const std::string shapes = io::shape_string(codes) + " with scales " + io::shape_string(scales);
  if (codes.size() != scales.size() || (codes.size() != 2 && codes.size() != 3) ||
      !std::equal(codes.begin(), codes.end() - 1, scales.begin())) {
    return bad_layer(layer, shapes + " is not [N,K/2] with [N,K/32], nor that for each expert");
  }
  if (tensor.data.empty()) return bad_layer(layer, shapes + " is empty");
  layer.stacked = codes.size() == 3;
  layer.num_experts = layer.stacked ? codes[0] : 1;
  layer.n = codes[codes.size() - 2];
  const auto k = recorded_k(layer);
  if (!k.is_ok()) return k.status();
  const std::int64_t row_bytes =
      tensor.dtype == "F4" ? codes_per_row_bytes(codes.back()) : codes.back();
  layer.k = *k != 0 ? *k : (tensor.dtype == "F4" ? codes.back() : 2 * codes.back());
  if (tensor.dtype == "F4" && codes.back() % 2 != 0) {
    return bad_layer(layer, shapes + " has rows that do not start at a byte");
  }
  if (codes_per_row_bytes(layer.k) != row_bytes || scales_per_row(layer.k) != scales.back()) {
    return bad_layer(
        layer, fmt::format("{} does not fit K = {}: it needs {} bytes and {} scales a row", shapes,
                           layer.k, codes_per_row_bytes(layer.k), scales_per_row(layer.k)));
  }
  const auto rule = file.metadata().find(kKeyScaleRule);
  if (rule != file.metadata().end()) layer.scale_rule = rule->second;
  return layer;
}

Result<std::vector<Layer>> find_layers(const io::Checkpoint& checkpoint) {
  std::vector<Layer> layers;
  for (const io::SafetensorsFile& file : checkpoint.files()) {
    for (const io::TensorView& tensor : file.tensors()) {
      if (!is_layer(checkpoint, tensor)) continue;
      auto layer = read_layer(checkpoint, file, tensor);
      if (!layer.is_ok()) return layer.status();
      layers.push_back(std::move(*layer));
    }
  }
  return layers;
}

Result<Layer> find_layer(const io::Checkpoint& checkpoint, std::string_view name) {
  const io::TensorView* other = nullptr;
  for (const std::string& candidate : {std::string(name), std::string(name) + ".weight"}) {
    const auto [file, tensor] = checkpoint.find(candidate);
    if (tensor == nullptr) continue;
    if (is_layer(checkpoint, *tensor)) return read_layer(checkpoint, *file, *tensor);
    other = tensor;
  }
  const std::string& path = checkpoint.files().front().name();
  if (other == nullptr) {
    return Status::error(StatusCode::bad_data, "%s has no tensor %s; `mxgemm inspect` lists them",
                         path.c_str(), io::quote(name).c_str());
  }
  if (is_float(*other)) {
    return Status::error(StatusCode::bad_data,
                         "%s is still %s, not MXFP4; `mxgemm quantize` makes it so",
                         io::quote(other->name).c_str(), other->dtype.c_str());
  }
  return Status::error(StatusCode::bad_data, "%s is %s without scales %s: no MXFP4 layer",
                       io::quote(other->name).c_str(), other->dtype.c_str(),
                       io::quote(scale_name(other->name)).c_str());
}

Result<Weights> layer_weights(const Layer& layer, std::int64_t row_step) {
  // Both mappings stay as long as the weights do; the layer itself may go.
  using Files = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  Weights::Options options;
  options.scale_rule = layer.scale_rule;
  options.keep_alive =
      std::make_shared<Files>(layer.file->keep_alive(), layer.scale_file->keep_alive());
  Mxfp4View view = layer.view();
  if (row_step == 1) {
    options.num_experts = layer.num_experts;
  } else {
    view.rows = (view.rows + row_step - 1) / row_step;
    view.codes_stride *= row_step;
    view.scales_stride *= row_step;
  }
  return Weights::from_row_major(view, options);
}

Layout layout_for_kernel(std::string_view kernel) {
  constexpr Layout kPacked = Layout::cpu_panel16;  // what Weights::pack() makes for the CPU
  for (const KernelInfo& info : kernels()) {
    if (info.name != kernel || info.layouts.empty()) continue;
    const auto& layouts = info.layouts;
    if (std::find(layouts.begin(), layouts.end(), kPacked) == layouts.end()) return layouts.front();
  }
  return kPacked;
}

Result<Weights> weights_for_kernel(const Weights& weights, std::string_view kernel,
                                   ThreadPool* threads) {
  return weights.to_layout(layout_for_kernel(kernel), threads);
}

ScaleRange scale_range(const Layer& layer) {
  ScaleRange range;
  for (const std::uint8_t b : layer.scales->data) {
    if (b == formats::kE8m0NaN) {
      ++range.num_nan;
      continue;
    }
    range.min = std::min<int>(range.min, b);
    range.max = std::max<int>(range.max, b);
  }
  return range;
}

}  // namespace mxgemm::cli
