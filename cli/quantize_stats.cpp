// Statistics of a quantized tensor, fast enough not to be noticed beside the quantizer.
//
// A block is looked at in units of its scale: then all values are at most 8 in magnitude, float32
// sums over 32 elements lose nothing that matters, and neither overflow nor underflow can happen.
// Blocks are summed in double.
#include "quantize_stats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/mxfp4.h"

namespace mxgemm::cli {
namespace {

using formats::kBlock;

/// The two values of a code byte.
constexpr auto kPairs = [] {
  std::array<std::array<float, 2>, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[byte] = {formats::e2m1_to_float(byte & 15), formats::e2m1_to_float(byte >> 4)};
  }
  return table;
}();

template <class T>
float to_float(T x) noexcept;
template <>
float to_float(float x) noexcept {
  return x;
}
template <>
float to_float(bf16 x) noexcept {
  return formats::bf16_to_float(x.bits);
}
/// As formats::f16_to_float, without branches, so that a loop of them becomes vector code.
template <>
float to_float(f16 x) noexcept {
  const std::uint32_t magnitude = x.bits & 0x7FFFu, sign = x.bits & 0x8000u;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // exact, subnormals too
  const std::uint32_t non_finite = magnitude >= 0x7C00u ? formats::kF32Inf : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | non_finite | (sign << 16));
}

struct BlockSums {
  float signal = 0, noise = 0;
  int clipped = 0, zeroed = 0;
};

/// x in units of the scale against the values of the codes. Eight independent lanes, so that the
/// compiler may use vectors without reordering a sum.
BlockSums sum_block(const float* x, const float* values, float unit) noexcept {
  constexpr int kLanes = 8;
  float signal[kLanes] = {}, noise[kLanes] = {};
  int clipped[kLanes] = {}, zeroed[kLanes] = {};
  for (int i = 0; i < kBlock; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      const float q = x[i + j] * unit, difference = q - values[i + j];
      signal[j] += q * q;
      noise[j] += difference * difference;
      clipped[j] += static_cast<int>(std::fabs(q) > 6.0f);
      zeroed[j] += static_cast<int>(values[i + j] == 0.0f) & static_cast<int>(x[i + j] != 0.0f);
    }
  }
  BlockSums sums;
  for (int j = 0; j < kLanes; ++j) {
    sums.signal += signal[j];
    sums.noise += noise[j];
    sums.clipped += clipped[j];
    sums.zeroed += zeroed[j];
  }
  return sums;
}

/// The same for a block with NaN or infinities, which only count as such.
BlockSums sum_finite(const float* x, const float* values, float unit, QuantStats& stats) noexcept {
  BlockSums sums;
  for (int i = 0; i < kBlock; ++i) {
    if (!std::isfinite(x[i])) {
      ++stats.non_finite;
      continue;
    }
    const float q = x[i] * unit, difference = q - values[i];
    sums.signal += q * q;
    sums.noise += difference * difference;
    sums.clipped += std::fabs(q) > 6.0f;
    sums.zeroed += values[i] == 0.0f && x[i] != 0.0f;
  }
  return sums;
}

/// 2^(b - 127), squared.
double scale_squared(std::uint8_t b) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(2 * (b - 127) + 1023) << 52);
}

void add_block(QuantStats& stats, const float* x, const std::uint8_t* codes, int count,
               std::uint8_t b) {
  if (b == formats::kE8m0NaN) {
    ++stats.nan_blocks;
    for (int i = 0; i < count; ++i) stats.non_finite += !std::isfinite(x[i]);
    return;
  }
  alignas(64) float values[kBlock] = {};
  for (int i = 0; i < (count + 1) / 2; ++i) {
    std::memcpy(values + 2 * i, kPairs[codes[i]].data(), 2 * sizeof(float));
  }
  const float unit = formats::e8m0_to_float(static_cast<std::uint8_t>(254 - b));
  BlockSums sums = sum_block(x, values, unit);
  if (!std::isfinite(sums.signal)) sums = sum_finite(x, values, unit, stats);
  const double square = scale_squared(b);
  stats.signal += static_cast<double>(sums.signal) * square;
  stats.noise += static_cast<double>(sums.noise) * square;
  stats.clipped += sums.clipped;
  stats.zeroed += sums.zeroed;
  if (sums.signal > 0) {
    stats.scale_min = std::min<int>(stats.scale_min, b);
    stats.scale_max = std::max<int>(stats.scale_max, b);
  }
}

template <class T>
void add_typed(QuantStats& stats, const ConstMatrix& x, const Mxfp4View& q) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const auto* row = static_cast<const unsigned char*>(x.data) +
                      r * x.row_stride * static_cast<std::int64_t>(sizeof(T));
    const std::uint8_t* codes = q.codes + r * q.codes_stride;
    const std::uint8_t* scales = q.scales + r * q.scales_stride;
    for (std::int64_t c = 0, block = 0; c < x.cols; c += kBlock, ++block) {
      const auto count = static_cast<int>(std::min<std::int64_t>(kBlock, x.cols - c));
      alignas(64) T raw[kBlock] = {};
      alignas(64) float values[kBlock];
      // A full block is copied with a constant size: a few vector moves.
      const unsigned char* from = row + c * static_cast<std::int64_t>(sizeof(T));
      if (count == kBlock) {
        std::memcpy(raw, from, sizeof raw);
      } else {
        std::memcpy(raw, from, static_cast<std::size_t>(count) * sizeof(T));
      }
      for (int i = 0; i < kBlock; ++i) values[i] = to_float(raw[i]);
      add_block(stats, values, codes + c / 2, count, scales[block]);
    }
  }
}

}  // namespace

double QuantStats::sqnr_db() const {
  if (signal == 0) return std::numeric_limits<double>::quiet_NaN();
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

void QuantStats::merge(const QuantStats& other) {
  signal += other.signal;
  noise += other.noise;
  elements += other.elements;
  clipped += other.clipped;
  zeroed += other.zeroed;
  non_finite += other.non_finite;
  nan_blocks += other.nan_blocks;
  scale_min = std::min(scale_min, other.scale_min);
  scale_max = std::max(scale_max, other.scale_max);
}

void add_rows(QuantStats& stats, const ConstMatrix& x, const Mxfp4View& q) {
  stats.elements += x.rows * x.cols;
  switch (x.dtype) {
    case DType::bf16:
      return add_typed<bf16>(stats, x, q);
    case DType::f16:
      return add_typed<f16>(stats, x, q);
    case DType::f32:
      return add_typed<float>(stats, x, q);
  }
}

}  // namespace mxgemm::cli
