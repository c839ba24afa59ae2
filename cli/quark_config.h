// AMD Quark's way to say that a checkpoint is MXFP4: names, a section of config.json, metadata.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/quantize.h"

namespace mxgemm::cli {

/// Keys of a written file's metadata.
inline constexpr const char* kKeyVersion = "mxgemm.version";
inline constexpr const char* kKeyScaleRule = "mxgemm.scale_rule";
inline constexpr const char* kKeyRounding = "mxgemm.rounding";
inline constexpr const char* kKeyNonFinite = "mxgemm.non_finite";
inline constexpr const char* kKeyK = "mxgemm.k";  // JSON object: tensor -> K

/// "X.weight" -> "X.weight_scale".
std::string scale_name(std::string_view tensor);
/// "X.weight" -> "X": what Quark calls a layer. Another name stays.
std::string layer_name(std::string_view tensor);

/// The section `quantization_config`: MXFP4 weights, activations quantized on the fly with `even`.
/// `exclude`: the layers that stay float.
nlohmann::ordered_json quark_section(ScaleRule weight_rule,
                                     const std::vector<std::string>& exclude);

}  // namespace mxgemm::cli
