// How well a tensor survived: error, clipped and zeroed elements, range of scales.
#pragma once

#include <cstdint>

#include "mxgemm/tensor.h"

namespace mxgemm::cli {

struct QuantStats {
  double signal = 0, noise = 0;  // sums of x^2 and (x - q)^2 over finite elements
  std::int64_t elements = 0;
  std::int64_t clipped = 0;             // |x| > 6 * scale
  std::int64_t zeroed = 0;              // x != 0 that became 0
  std::int64_t non_finite = 0;          // NaN and infinities in the input
  std::int64_t nan_blocks = 0;          // scale byte 255
  int scale_min = 256, scale_max = -1;  // scale bytes of blocks with a nonzero, finite value

  /// 10 log10(signal / noise); infinity without noise, NaN without signal.
  double sqnr_db() const;
  bool has_scales() const noexcept { return scale_max >= 0; }
  void merge(const QuantStats& other);
};

/// Adds rows that were quantized: x[rows, cols] and q[rows, cols].
void add_rows(QuantStats& stats, const ConstMatrix& x, const Mxfp4View& q);

}  // namespace mxgemm::cli
