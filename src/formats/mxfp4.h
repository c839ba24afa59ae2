// Scalar codecs of E2M1, E8M0, bf16 and f16: the one definition of the encodings, plain
// arithmetic, usable in constant expressions and in device code.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace mxgemm::formats {

inline constexpr int kBlock = 32;      // elements that share one scale
inline constexpr int kSpanBlocks = 8;  // blocks of one span of the ordered sum
inline constexpr std::uint8_t kE8m0One = 127;
inline constexpr std::uint8_t kE8m0NaN = 255;
inline constexpr std::uint32_t kF32Inf = 0x7F800000;
inline constexpr std::uint32_t kF32NaN = 0x7FC00000;  // the only NaN that mxgemm writes
inline constexpr std::uint16_t kBf16NaN = 0x7FC0;

/// Twice the E2M1 value of a code, a whole number: 0 1 2 3 4 6 8 12, negative from code 8.
constexpr int e2m1_doubled(unsigned code) noexcept {
  const int magnitude = static_cast<int>((0xC8643210ull >> (4 * (code & 7u))) & 15u);
  return (code & 8u) ? -magnitude : magnitude;
}

/// Keeps the sign of code 8 (-0).
constexpr float e2m1_to_float(unsigned code) noexcept {
  const float magnitude = 0.5f * static_cast<float>(e2m1_doubled(code & 7u));
  return (code & 8u) ? -magnitude : magnitude;
}

/// 2^(b - 127); byte 0 is the subnormal 2^-127, byte 255 is NaN.
constexpr float e8m0_to_float(std::uint8_t b) noexcept {
  const std::uint32_t bits = b == 0 ? 0x00400000u : b == 255 ? kF32NaN : std::uint32_t{b} << 23;
  return std::bit_cast<float>(bits);
}

/// 2^e for e in [-127, 127].
constexpr float exp2_int(int e) noexcept {
  return e8m0_to_float(static_cast<std::uint8_t>(e + 127));
}

constexpr float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Round to nearest even; overflow becomes infinity, every NaN becomes 0x7FC0.
constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(value == value ? rounded : kBf16NaN);
}

constexpr float f16_to_float(std::uint16_t h) noexcept {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16;
  const std::uint32_t exponent = (h >> 10) & 31u, mantissa = h & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t biased = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | (biased << 23) | (mantissa << 13));
}

/// Round to nearest even; overflow becomes infinity, every NaN becomes 0x7E00.
constexpr std::uint16_t float_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (magnitude > kF32Inf) return 0x7E00;
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // >= 65536
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 2^-1 leaves units of 2^-24 in the mantissa
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u));
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

static_assert(e2m1_doubled(7) == 12 && e2m1_doubled(15) == -12 && e2m1_doubled(8) == 0);
static_assert(e8m0_to_float(0) == 0x1p-127f && e8m0_to_float(254) == 0x1p127f);
static_assert(std::bit_cast<std::uint32_t>(e2m1_to_float(8)) == 0x80000000u);

}  // namespace mxgemm::formats
