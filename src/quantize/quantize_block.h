// The one definition of the scale rules and of rounding (docs/numerics.md, section 2). Vector
// kernels re-implement these lines and are tested bit for bit against them.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/mxfp4.h"
#include "mxgemm/quantize.h"

namespace mxgemm {

/// What a rule adds to the float32 bits of amax before it takes the exponent. `even` carries into
/// the exponent from mantissa 1.75 on, `rceil` above 1.5, `ceil` above 1.
constexpr std::uint32_t scale_rule_addend(ScaleRule rule) noexcept {
  switch (rule) {
    case ScaleRule::even:
      return 0x00200000u;
    case ScaleRule::floor:
      return 0u;
    case ScaleRule::rceil:
      return 0x003FFFFFu;
    case ScaleRule::ceil:
      return 0x007FFFFFu;
  }
  return 0u;
}

/// Scale byte of a block whose largest finite magnitude has these float32 bits.
constexpr std::uint8_t scale_byte(std::uint32_t amax_bits, std::uint32_t rule_addend) noexcept {
  const auto exponent = static_cast<int>((amax_bits + rule_addend) >> 23);
  return static_cast<std::uint8_t>(exponent > 2 ? exponent - 2 : 0);
}

/// What the elements of a block with scale byte b are multiplied by: 2^(127 - b).
constexpr float element_multiplier(std::uint8_t b) noexcept {
  return formats::e8m0_to_float(static_cast<std::uint8_t>(254 - b));
}

/// E2M1 code of q: nearest, ties to the even code, saturating at 6; keeps the sign. q is no NaN.
///
/// E2M1 steps by 0.5 below 2, by 1 below 4 and by 2 above. Adding 2^(22 + e), whose last place is
/// one step, makes the float adder do the rounding; what it leaves above 2^(22 + e) counts steps.
constexpr std::uint8_t e2m1_code(float q) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(q);
  std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  magnitude = magnitude < 0x40C00000u ? magnitude : 0x40C00000u;  // min(|q|, 6)
  const std::uint32_t binade = (magnitude > 0x3F800000u ? magnitude : 0x3F800000u) & 0x7F800000u;
  const std::uint32_t magic = binade + (22u << 23);
  const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic);
  const std::uint32_t steps = std::bit_cast<std::uint32_t>(sum) - magic;
  const std::uint32_t code = steps + ((binade - 0x3F800000u) >> 22);  // two codes a binade
  return static_cast<std::uint8_t>(code | ((bits >> 28) & 8u));
}

/// Quantizes one block of `count` <= 32 float32 values (a short block is filled with +0).
/// Writes ceil(count / 2) code bytes and returns the scale byte.
inline std::uint8_t quantize_block(const float* x, int count, std::uint32_t rule_addend,
                                   NonFinite policy, std::uint8_t* codes) noexcept {
  std::uint32_t amax = 0;
  bool has_inf = false, has_nan = false;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    has_inf |= magnitude == formats::kF32Inf;
    has_nan |= magnitude > formats::kF32Inf;
    if (magnitude <= formats::kF32Inf && magnitude > amax) amax = magnitude;
  }
  std::uint8_t b = scale_byte(amax, rule_addend);
  if (has_inf || has_nan) {
    if (policy == NonFinite::propagate) {
      for (int j = 0; j < (count + 1) / 2; ++j) codes[j] = 0;
      return formats::kE8m0NaN;
    }
    if (has_inf) b = 253;
  }
  const float multiplier = element_multiplier(b);
  std::uint8_t code[formats::kBlock + 1];
  for (int i = 0; i < count; ++i) {
    const bool is_nan = (std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu) > formats::kF32Inf;
    code[i] = is_nan ? std::uint8_t{0} : e2m1_code(x[i] * multiplier);
  }
  code[count] = 0;
  for (int j = 0; j < (count + 1) / 2; ++j)
    codes[j] = static_cast<std::uint8_t>(code[2 * j] | (code[2 * j + 1] << 4));
  return b;
}

}  // namespace mxgemm
