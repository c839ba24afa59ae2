// Scalar codecs against their definitions, exhaustively.
#include <cmath>

#include "testing.h"

namespace mxgemm {
namespace {

using namespace formats;

TEST(Formats, E2m1Values) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (unsigned code = 0; code < 16; ++code) {
    const float want = code < 8 ? values[code] : -values[code - 8];
    EXPECT_EQ(std::bit_cast<std::uint32_t>(e2m1_to_float(code)),
              std::bit_cast<std::uint32_t>(want));
    EXPECT_EQ(static_cast<float>(e2m1_doubled(code)), 2 * want);
  }
}

TEST(Formats, E8m0Values) {
  for (int b = 0; b < 255; ++b)
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(b)), std::ldexp(1.0f, b - 127)) << b;
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(Formats, EveryCodeTimesEveryScaleIsExactInDouble) {
  for (int b = 0; b < 255; ++b)
    for (unsigned code = 0; code < 16; ++code) {
      const double want = std::ldexp(double{e2m1_to_float(code)}, b - 127);
      const float got = e8m0_to_float(static_cast<std::uint8_t>(b)) * e2m1_to_float(code);
      EXPECT_EQ(got, static_cast<float>(want)) << b << " " << code;
      EXPECT_EQ(std::isinf(got), std::fabs(want) >= 0x1p128);
    }
}

TEST(Formats, Bf16RoundTripsAndRoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const auto bits = static_cast<std::uint16_t>(h);
    const float value = bf16_to_float(bits);
    EXPECT_EQ(float_to_bf16(value), std::isnan(value) ? kBf16NaN : bits);
  }
  // Between two neighbours: below the middle, the middle (to even), above it.
  for (std::uint32_t h = 0; h < 0x7F80; ++h) {
    const std::uint32_t base = h << 16;
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(base + 0x7FFFu)), h);
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(base + 0x8000u)), h + (h & 1u));
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(base + 0x8001u)), h + 1u);
  }
}

// The conversion written with ldexp, from the definition of binary16.
float f16_by_definition(std::uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 0x3FF;
  const float sign = (h & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

TEST(Formats, F16Exhaustive) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const auto bits = static_cast<std::uint16_t>(h);
    const float want = f16_by_definition(bits), got = f16_to_float(bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got));
      EXPECT_EQ(float_to_f16(got), 0x7E00);
      continue;
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << h;
    EXPECT_EQ(float_to_f16(got), bits);
  }
  for (std::uint32_t h = 0; h < 0x7BFF; ++h) {  // midpoints round to even
    const float low = f16_to_float(static_cast<std::uint16_t>(h));
    const float high = f16_to_float(static_cast<std::uint16_t>(h + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(float_to_f16(middle), h + (h & 1u)) << h;
    EXPECT_EQ(float_to_f16(std::nextafter(middle, INFINITY)), h + 1u);
    EXPECT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), h);
  }
  EXPECT_EQ(float_to_f16(65519.0f), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_f16(-1e30f), 0xFC00);
}

}  // namespace
}  // namespace mxgemm
