#include <array>
#include <cstdint>
#include <limits>

#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

struct DTypeBits {
  std::string_view name;
  int bits;
};
constexpr std::array kDTypes = std::to_array<DTypeBits>({
    {"BF16", 16},   {"F32", 32},        {"F16", 16},        {"U8", 8},   {"I8", 8},
    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"F4", 4},   {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F64", 64}, {"I64", 64},
    {"U64", 64},    {"I32", 32},        {"U32", 32},        {"I16", 16}, {"U16", 16},
    {"BOOL", 8},    {"C64", 64},
});

std::string describe(const TensorView& tensor) {
  return "tensor " + quote(tensor.name) + ": " + printable(tensor.dtype, 20) + " of shape " +
         shape_string(tensor.shape);
}

}  // namespace

int dtype_bits(std::string_view dtype) noexcept {
  for (const DTypeBits& known : kDTypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

std::string shape_string(std::span<const std::int64_t> shape) {
  constexpr std::size_t kShown = 8;
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size() && i < kShown; ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  if (shape.size() > kShown) out += ", ... " + count(shape.size(), "dimension");
  return out + "]";
}

std::int64_t TensorView::num_elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t dim : shape) {
    if (dim == 0) return 0;
    product *= dim;
  }
  return product;
}

Result<ShapeProduct> shape_product(std::span<const std::int64_t> shape) {
  ShapeProduct product;
  for (const std::int64_t dim : shape) {
    if (dim < 0) {
      return Status::error(StatusCode::bad_data, "shape %s has a negative dimension",
                           shape_string(shape).c_str());
    }
    product.empty = product.empty || dim == 0;
    if (dim != 0 && __builtin_mul_overflow(product.nonzero, dim, &product.nonzero)) {
      return Status::error(StatusCode::bad_data, "shape %s has more elements than 63 bits count",
                           shape_string(shape).c_str());
    }
  }
  return product;
}

Result<std::uint64_t> tensor_bytes(std::string_view dtype, std::span<const std::int64_t> shape) {
  const Result<ShapeProduct> product = shape_product(shape);
  if (!product.is_ok()) return product.status();
  const int bits = dtype_bits(dtype);
  if (bits == 0) {
    return Status::error(StatusCode::unsupported, "the element size of dtype %s is unknown",
                         quote(dtype, 40).c_str());
  }
  std::int64_t total_bits = 0;
  // In bytes where the element allows it: only sub-byte types count bits.
  const bool whole = bits % 8 == 0;
  if (__builtin_mul_overflow(product->elements(), whole ? bits / 8 : bits, &total_bits)) {
    return Status::error(StatusCode::bad_data, "shape %s of %s has more bytes than 63 bits count",
                         shape_string(shape).c_str(), printable(dtype, 40).c_str());
  }
  if (whole) return static_cast<std::uint64_t>(total_bits);
  if (total_bits % 8 != 0) {
    return Status::error(StatusCode::bad_data,
                         "shape %s of %s (%d bits an element) does not fill whole bytes",
                         shape_string(shape).c_str(), printable(dtype, 40).c_str(), bits);
  }
  return static_cast<std::uint64_t>(total_bits / 8);
}

Result<ConstMatrix> as_float_matrix(const TensorView& tensor) {
  DType dtype = DType::f32;
  if (tensor.dtype == "BF16") {
    dtype = DType::bf16;
  } else if (tensor.dtype == "F16") {
    dtype = DType::f16;
  } else if (tensor.dtype != "F32") {
    return Status::error(StatusCode::unsupported, "%s, needs to be F32, F16 or BF16",
                         describe(tensor).c_str());
  }
  if (tensor.shape.empty()) {
    return Status::error(StatusCode::bad_data, "%s, needs at least one dimension",
                         describe(tensor).c_str());
  }
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return ConstMatrix(tensor.data.data(), dtype, rows, tensor.shape.back(), tensor.shape.back());
}

Result<std::span<const std::uint8_t>> as_bytes(const TensorView& tensor) {
  for (const std::string_view dtype : {"U8", "I8", "F8_E8M0", "F4"}) {
    if (tensor.dtype == dtype) return tensor.data;
  }
  return Status::error(StatusCode::unsupported, "%s, needs to be U8, I8, F8_E8M0 or F4",
                       describe(tensor).c_str());
}

}  // namespace mxgemm::io
