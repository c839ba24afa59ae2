#include "quark_config.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One operand: blocks of 32 along the last axis, E2M1 elements, an E8M0 scale.
Json operand(ScaleRule rule, bool dynamic) {
  return Json{{"dtype", "fp4"},
              {"qscheme", "per_group"},
              {"ch_axis", -1},
              {"group_size", 32},
              {"is_dynamic", dynamic},
              {"round_method", "half_even"},
              {"scale_format", "e8m0"},
              {"scale_calculation_mode", std::string(to_string(rule))},
              {"scale_type", "float"},
              {"observer_cls", "PerBlockMXObserver"},
              {"mx_element_dtype", nullptr},
              {"is_scale_quant", false},
              {"symmetric", nullptr}};
}

}  // namespace

std::string scale_name(std::string_view tensor) {
  return std::string(tensor) + "_scale";
}

std::string layer_name(std::string_view tensor) {
  constexpr std::string_view kSuffix = ".weight";
  if (tensor.ends_with(kSuffix)) tensor.remove_suffix(kSuffix.size());
  return std::string(tensor);
}

Json quark_section(ScaleRule weight_rule, const std::vector<std::string>& exclude) {
  return Json{{"quant_method", "quark"},
              {"quant_mode", "eager_mode"},
              {"global_quant_config", Json{{"weight", operand(weight_rule, false)},
                                           {"input_tensors", operand(ScaleRule::even, true)},
                                           {"output_tensors", nullptr},
                                           {"bias", nullptr},
                                           {"target_device", nullptr}}},
              {"layer_quant_config", Json::object()},
              {"layer_type_quant_config", Json::object()},
              {"exclude", exclude},
              {"export", Json{{"weight_format", "real_quantized"},
                              {"pack_method", "reorder"},
                              {"kv_cache_group", Json::array()},
                              {"min_kv_scale", 0.0},
                              {"weight_merge_groups", nullptr}}},
              {"kv_cache_quant_config", Json::object()},
              {"algo_config", nullptr},
              {"softmax_quant_spec", nullptr}};
}

}  // namespace mxgemm::cli
