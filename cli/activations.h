// Activations to check kernels with: random ones, and probes that make layout and rounding bugs
// visible.
#pragma once

#include <cstdint>
#include <vector>

#include "mxgemm/tensor.h"

namespace mxgemm::cli {

/// A dense [rows, cols] matrix of bf16.
struct Bf16Matrix {
  std::vector<bf16> values;
  std::int64_t rows = 0, cols = 0;

  /// Every `row_step`-th row.
  ConstMatrix view(std::int64_t row_step = 1) const noexcept {
    return ConstMatrix(values.data(), DType::bf16, (rows + row_step - 1) / row_step, cols,
                       cols * row_step);
  }
};

/// Nearly normally distributed, the same for the same seed.
Bf16Matrix random_activations(std::int64_t rows, std::int64_t cols, std::uint64_t seed);

/// Rows of, in turn: one element at a place of its own; a power of two of its own; a different
/// scale for every block; alternating signs of ties; zeros with a NaN; zeros with an infinity.
Bf16Matrix probe_activations(std::int64_t rows, std::int64_t cols);

}  // namespace mxgemm::cli
