// Checks of what callers hand in. Each returns a sentence that names the argument and its value.
#pragma once

#include <cstdint>

#include "mxgemm/plan.h"
#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm {

/// Data present where there are elements, sizes not negative, row stride at least a row, a known
/// dtype, and offsets inside 64 bits.
Status check_matrix(const char* name, const void* data, DType dtype, std::int64_t rows,
                    std::int64_t cols, std::int64_t row_stride) noexcept;
inline Status check_matrix(const char* name, const ConstMatrix& m) noexcept {
  return check_matrix(name, m.data, m.dtype, m.rows, m.cols, m.row_stride);
}
inline Status check_matrix(const char* name, const Matrix& m) noexcept {
  return check_matrix(name, m.data, m.dtype, m.rows, m.cols, m.row_stride);
}
Status check_mxfp4(const char* name, const Mxfp4View& m) noexcept;
/// C and what is added to it: bf16 or f32, n columns, a bias of n values or none.
Status check_output(const Matrix& c, const Epilogue& epilogue, std::int64_t n) noexcept;
Status check_rule(ScaleRule rule, NonFinite policy) noexcept;

/// Address range [begin, end) that a matrix touches.
struct ByteRange {
  std::uintptr_t begin = 0, end = 0;
};
constexpr bool overlaps(ByteRange a, ByteRange b) noexcept {
  return a.begin < b.end && b.begin < a.end;
}
/// Of `rows` rows of row_bytes each, stride_bytes apart.
ByteRange byte_range(const void* data, std::int64_t rows, std::int64_t row_bytes,
                     std::int64_t stride_bytes) noexcept;

}  // namespace mxgemm
