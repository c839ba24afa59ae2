// Views of memory the caller owns. Strides count elements (bytes for MXFP4 codes and scales).
#pragma once

#include <cstdint>
#include <string_view>

#include "mxgemm/export.h"

namespace mxgemm {

/// bfloat16: the upper half of a float32.
struct bf16 {
  std::uint16_t bits;
};
/// IEEE binary16.
struct f16 {
  std::uint16_t bits;
};

enum class DType : int { bf16 = 0, f16 = 1, f32 = 2 };

/// "bf16", "f16", "f32".
MXGEMM_EXPORT std::string_view to_string(DType dtype) noexcept;

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) noexcept {
  return dtype == DType::f32 ? 4 : 2;
}

/// Sizes of C[m,n] = A[m,k] * W[n,k]^T.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
};

/// Row-major matrix with unit column stride: element (r, c) is data[r * row_stride + c].
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0, cols = 0, row_stride = 0;
};

/// A floating-point matrix to read, of any DType; no alignment is needed.
struct ConstMatrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0;  // elements between two rows, at least cols

  constexpr ConstMatrix() noexcept = default;
  constexpr ConstMatrix(const void* p, DType t, std::int64_t r, std::int64_t c,
                        std::int64_t stride) noexcept
      : data(p), dtype(t), rows(r), cols(c), row_stride(stride) {}
  constexpr ConstMatrix(MatrixView<const float> v) noexcept  // NOLINT(google-explicit-constructor)
      : ConstMatrix(v.data, DType::f32, v.rows, v.cols, v.row_stride) {}
  constexpr ConstMatrix(MatrixView<const bf16> v) noexcept  // NOLINT(google-explicit-constructor)
      : ConstMatrix(v.data, DType::bf16, v.rows, v.cols, v.row_stride) {}
  constexpr ConstMatrix(MatrixView<const f16> v) noexcept  // NOLINT(google-explicit-constructor)
      : ConstMatrix(v.data, DType::f16, v.rows, v.cols, v.row_stride) {}
};

/// A floating-point matrix to write.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0;

  constexpr Matrix() noexcept = default;
  constexpr Matrix(void* p, DType t, std::int64_t r, std::int64_t c, std::int64_t stride) noexcept
      : data(p), dtype(t), rows(r), cols(c), row_stride(stride) {}
  constexpr Matrix(MatrixView<float> v) noexcept  // NOLINT(google-explicit-constructor)
      : Matrix(v.data, DType::f32, v.rows, v.cols, v.row_stride) {}
  constexpr Matrix(MatrixView<bf16> v) noexcept  // NOLINT(google-explicit-constructor)
      : Matrix(v.data, DType::bf16, v.rows, v.cols, v.row_stride) {}
  constexpr Matrix(MatrixView<f16> v) noexcept  // NOLINT(google-explicit-constructor)
      : Matrix(v.data, DType::f16, v.rows, v.cols, v.row_stride) {}
};

/// Bytes of packed codes in a row of k elements: two E2M1 codes a byte.
constexpr std::int64_t codes_per_row_bytes(std::int64_t k) noexcept {
  return (k + 1) / 2;
}
/// E8M0 scales in a row of k elements: one for each 32.
constexpr std::int64_t scales_per_row(std::int64_t k) noexcept {
  return (k + 31) / 32;
}

/// An MXFP4 matrix to read, in the row_major layout: element 2j of a row is in bits 0-3 of code
/// byte j, element 2j+1 in bits 4-7; scale byte b of a row belongs to elements 32b .. 32b+31.
struct Mxfp4View {
  const std::uint8_t* codes = nullptr;   // [rows, codes_per_row_bytes(cols)]
  const std::uint8_t* scales = nullptr;  // [rows, scales_per_row(cols)]
  std::int64_t rows = 0;
  std::int64_t cols = 0;           // elements, not bytes
  std::int64_t codes_stride = 0;   // bytes between two rows of codes
  std::int64_t scales_stride = 0;  // bytes between two rows of scales
};

/// The same, to write.
struct Mxfp4Buffer {
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  std::int64_t rows = 0, cols = 0, codes_stride = 0, scales_stride = 0;

  constexpr operator Mxfp4View() const noexcept {  // NOLINT(google-explicit-constructor)
    return {codes, scales, rows, cols, codes_stride, scales_stride};
  }
};

/// View of densely packed codes and scales.
constexpr Mxfp4View mxfp4_view(const std::uint8_t* codes, const std::uint8_t* scales,
                               std::int64_t rows, std::int64_t cols) noexcept {
  return {codes, scales, rows, cols, codes_per_row_bytes(cols), scales_per_row(cols)};
}
constexpr Mxfp4Buffer mxfp4_buffer(std::uint8_t* codes, std::uint8_t* scales, std::int64_t rows,
                                   std::int64_t cols) noexcept {
  return {codes, scales, rows, cols, codes_per_row_bytes(cols), scales_per_row(cols)};
}

}  // namespace mxgemm
