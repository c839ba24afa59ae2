// Checks of what callers hand in. Each returns a sentence that names the argument and its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

/// The bytes a matrix touches: `rows` rows of row_bytes, stride bytes apart.
struct StridedBytes {
  const void* data = nullptr;
  std::int64_t rows = 0, row_bytes = 0, stride = 0;
};
/// Whether two matrices share a byte. Columns of one buffer (equal strides) are told apart; other
/// interleavings count as overlapping.
bool overlaps(const StridedBytes& a, const StridedBytes& b) noexcept;

inline StridedBytes bytes_of(const ConstMatrix& m) noexcept {
  return {m.data, m.rows, m.cols * size_of(m.dtype), m.row_stride * size_of(m.dtype)};
}
inline StridedBytes bytes_of(const Matrix& m) noexcept {
  return {m.data, m.rows, m.cols * size_of(m.dtype), m.row_stride * size_of(m.dtype)};
}
inline StridedBytes bytes_of(std::span<const std::byte> bytes) noexcept {
  return {bytes.data(), 1, static_cast<std::int64_t>(bytes.size()), 0};
}
inline bool overlaps(const StridedBytes& a, const ConstMatrix& b) noexcept {
  return overlaps(a, bytes_of(b));
}
inline bool overlaps(const StridedBytes& a, const Mxfp4View& b) noexcept {
  return overlaps(a, {b.codes, b.rows, codes_per_row_bytes(b.cols), b.codes_stride}) ||
         overlaps(a, {b.scales, b.rows, scales_per_row(b.cols), b.scales_stride});
}

}  // namespace mxgemm
