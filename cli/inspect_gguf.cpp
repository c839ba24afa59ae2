#include "inspect_gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "exit_code.h"
#include "formats/mxfp4.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/text.h"
#include "layers.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
T load(std::span<const std::uint8_t> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);  // GGUF and the machine are little-endian
  return value;
}
static_assert(std::endian::native == std::endian::little);

/// A scalar or string as it is, an array by its element type and count.
Json value_json(const io::GgufEntry& entry) {
  switch (entry.type) {
    case io::GgufValueType::u8:
      return load<std::uint8_t>(entry.value);
    case io::GgufValueType::i8:
      return load<std::int8_t>(entry.value);
    case io::GgufValueType::u16:
      return load<std::uint16_t>(entry.value);
    case io::GgufValueType::i16:
      return load<std::int16_t>(entry.value);
    case io::GgufValueType::u32:
      return load<std::uint32_t>(entry.value);
    case io::GgufValueType::i32:
      return load<std::int32_t>(entry.value);
    case io::GgufValueType::f32:
      return json_number(load<float>(entry.value));
    case io::GgufValueType::boolean:
      return load<std::uint8_t>(entry.value) != 0;
    case io::GgufValueType::string:
      return io::gguf_text(entry);
    case io::GgufValueType::u64:
      return load<std::uint64_t>(entry.value);
    case io::GgufValueType::i64:
      return load<std::int64_t>(entry.value);
    case io::GgufValueType::f64:
      return json_number(load<double>(entry.value));
    case io::GgufValueType::array:
      break;
  }
  const auto type = static_cast<io::GgufValueType>(load<std::uint32_t>(entry.value));
  return {{"type", io::to_string(type)}, {"count", load<std::uint64_t>(entry.value.subspan(4))}};
}

std::string value_text(const io::GgufEntry& entry) {
  if (entry.type == io::GgufValueType::string) return io::printable(io::gguf_text(entry));
  const Json json = value_json(entry);
  if (entry.type != io::GgufValueType::array) return json.dump();
  return fmt::format("[{} x {}]", json["type"].get<std::string>(), json["count"].dump());
}

ScaleRange gguf_scale_range(const io::GgufTensor& tensor) {
  constexpr std::size_t kBlockBytes = 17;  // the scale is the first
  ScaleRange range;
  for (std::size_t i = 0; i < tensor.data.size(); i += kBlockBytes) {
    const std::uint8_t scale = tensor.data[i];
    if (scale == formats::kE8m0NaN) {
      ++range.num_nan;
      continue;
    }
    range.min = std::min<int>(range.min, scale);
    range.max = std::max<int>(range.max, scale);
  }
  return range;
}

/// Adds an MXFP4 tensor to `layers` and returns the remark beside it.
std::string describe_layer(const io::GgufFile& file, const io::GgufTensor& tensor, Json& layers) {
  const auto weights = file.weights(tensor);
  if (!weights.is_ok()) return "MXFP4, not a matrix or a stack of them";
  const ScaleRange range = gguf_scale_range(tensor);
  file.release(tensor);
  Json json = {{"name", tensor.name},  {"experts", weights->num_experts()}, {"n", weights->n()},
               {"k", weights->k()},    {"scale_rule", "unknown"},           {"scale_min", nullptr},
               {"scale_max", nullptr}, {"nan_scales", range.num_nan}};
  std::string remark = "MXFP4";
  if (tensor.rank == 3) remark += fmt::format(" E={}", weights->num_experts());
  remark += fmt::format(" N={} K={}", weights->n(), weights->k());
  if (range.max >= 0) {
    json["scale_min"] = range.min;
    json["scale_max"] = range.max;
    remark += fmt::format(", scales 2^{}..2^{}", range.min - 127, range.max - 127);
  }
  if (range.num_nan > 0) remark += fmt::format(", {} NaN scales", range.num_nan);
  layers.push_back(std::move(json));
  return remark;
}

}  // namespace

Result<int> inspect_gguf(const std::filesystem::path& path, bool json) {
  const auto file = io::GgufFile::open(path);
  if (!file.is_ok()) return file.status();
  Json tensors = Json::array(), layers = Json::array(), metadata = Json::object();
  std::size_t width = 6;
  for (const io::GgufTensor& t : file->tensors()) width = std::max(width, t.name.size());
  width = std::min<std::size_t>(width, 60);
  if (!json) {
    fmt::print("{}\n  GGUF version {}, alignment {}\n", file->name(), file->version(),
               file->alignment());
  }
  for (const io::GgufEntry& entry : file->metadata()) {
    if (json) {
      metadata[std::string(entry.key)] = value_json(entry);
    } else {
      fmt::print("  {} = {}\n", io::printable(entry.key), value_text(entry));
    }
  }
  std::uint64_t bytes = 0;
  for (const io::GgufTensor& tensor : file->tensors()) {
    std::string remark;
    if (tensor.type->id == io::kGgmlMXFP4) remark = describe_layer(*file, tensor, layers);
    bytes += tensor.data.size();
    if (json) {
      tensors.push_back({{"name", tensor.name},
                         {"dtype", tensor.type->name},
                         {"shape", tensor.shape()},
                         {"bytes", tensor.data.size()}});
      continue;
    }
    const std::string line =
        fmt::format("  {:<{}}  {:<7}  {:<20}  {}", io::printable(tensor.name, 200), width,
                    tensor.type->name, io::shape_string(tensor.shape()), remark);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  if (json) {
    Json files = Json::array({Json{{"path", file->name()},
                                   {"format", "gguf"},
                                   {"version", file->version()},
                                   {"alignment", file->alignment()},
                                   {"metadata", std::move(metadata)},
                                   {"tensors", std::move(tensors)}}});
    print_json({{"files", std::move(files)}, {"layers", std::move(layers)}});
  } else {
    fmt::print("{} tensors, {}, {} MXFP4 layers, {} metadata entries\n", file->tensors().size(),
               bytes_string(static_cast<double>(bytes)), layers.size(), file->metadata().size());
  }
  return kDone;
}

}  // namespace mxgemm::cli
