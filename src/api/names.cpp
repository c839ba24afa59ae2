// Names of the public enums, and reading them back.
#include <array>
#include <charconv>
#include <string>

#include "mxgemm/mxgemm.h"

namespace mxgemm {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view name;
};

constexpr Named<DType> kDTypes[] = {
    {DType::bf16, "bf16"}, {DType::f16, "f16"}, {DType::f32, "f32"}};
constexpr Named<ScaleRule> kScaleRules[] = {{ScaleRule::even, "even"},
                                            {ScaleRule::floor, "floor"},
                                            {ScaleRule::rceil, "rceil"},
                                            {ScaleRule::ceil, "ceil"}};
constexpr Named<NonFinite> kNonFinite[] = {{NonFinite::propagate, "propagate"},
                                           {NonFinite::saturate, "saturate"}};
constexpr Named<Layout> kLayouts[] = {{Layout::row_major, "row_major"},
                                      {Layout::aiter_16x16, "aiter_16x16"},
                                      {Layout::gguf_mxfp4, "gguf_mxfp4"},
                                      {Layout::cpu_panel16, "cpu_panel16"}};
constexpr Named<Reproducible> kReproducible[] = {
    {Reproducible::run, "run"}, {Reproducible::batch, "batch"}, {Reproducible::device, "device"}};
constexpr Named<Activation> kActivations[] = {{Activation::mxfp4, "mxfp4"},
                                              {Activation::none, "none"}};
constexpr Named<ErrorClass> kErrorClasses[] = {
    {ErrorClass::block_exact, "block_exact"},
    {ErrorClass::element_accumulating, "element_accumulating"}};
constexpr Named<DeviceKind> kDeviceKinds[] = {
    {DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}, {DeviceKind::hip, "hip"}};

template <class T, std::size_t kCount>
constexpr std::string_view name_of(const Named<T> (&names)[kCount], T value) noexcept {
  for (const Named<T>& named : names)
    if (named.value == value) return named.name;
  return "?";
}

template <class T, std::size_t kCount>
Result<T> parse(const Named<T> (&names)[kCount], const char* what, std::string_view text) {
  std::string all;
  for (const Named<T>& named : names) {
    if (named.name == text) return named.value;
    all += all.empty() ? "" : ", ";
    all += named.name;
  }
  return Status::error(StatusCode::invalid_argument, "%s is '%.*s', must be one of %s", what,
                       static_cast<int>(text.size()), text.data(), all.c_str());
}

}  // namespace

std::string_view to_string(DType dtype) noexcept {
  return name_of(kDTypes, dtype);
}
std::string_view to_string(ScaleRule rule) noexcept {
  return name_of(kScaleRules, rule);
}
std::string_view to_string(NonFinite policy) noexcept {
  return name_of(kNonFinite, policy);
}
std::string_view to_string(Layout layout) noexcept {
  return name_of(kLayouts, layout);
}
std::string_view to_string(Reproducible promise) noexcept {
  return name_of(kReproducible, promise);
}
std::string_view to_string(Activation activation) noexcept {
  return name_of(kActivations, activation);
}
std::string_view to_string(ErrorClass error_class) noexcept {
  return name_of(kErrorClasses, error_class);
}

Result<ScaleRule> parse_scale_rule(std::string_view text) {
  return parse(kScaleRules, "scale rule", text);
}
Result<NonFinite> parse_non_finite(std::string_view text) {
  return parse(kNonFinite, "non-finite policy", text);
}
Result<Layout> parse_layout(std::string_view text) {
  return parse(kLayouts, "layout", text);
}
Result<Reproducible> parse_reproducible(std::string_view text) {
  return parse(kReproducible, "reproducible", text);
}
Result<Activation> parse_activation(std::string_view text) {
  return parse(kActivations, "activation", text);
}

std::string to_string(const Device& device) {
  std::string text(name_of(kDeviceKinds, device.kind));
  if (device.kind != DeviceKind::cpu) text.append(":").append(std::to_string(device.index));
  return text;
}

Result<Device> Device::parse(std::string_view text) {
  for (const Named<DeviceKind>& named : kDeviceKinds) {
    if (!text.starts_with(named.name)) continue;
    const std::string_view rest = text.substr(named.name.size());
    if (rest.empty()) return Device{named.value, 0};
    int index = -1;
    const char* end = rest.data() + rest.size();
    const auto parsed = std::from_chars(rest.data() + 1, end, index);
    if (rest[0] == ':' && parsed.ec == std::errc() && parsed.ptr == end && index >= 0 &&
        named.value != DeviceKind::cpu)
      return Device{named.value, index};
  }
  return Status::error(StatusCode::invalid_argument,
                       "device is '%.*s', must be cpu, cuda, cuda:I, hip or hip:I with I >= 0",
                       static_cast<int>(text.size()), text.data());
}

}  // namespace mxgemm
