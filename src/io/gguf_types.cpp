// Types of values and tensors in GGUF files, and tensors as what the library reads.
#include <algorithm>
#include <array>

#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

// Numbers that are missing were withdrawn by ggml. Block sizes are those of its C structs;
// tests/crosscheck/gguf_check.py compares them with the Python package's.
constexpr std::array kTypes = std::to_array<GgmlType>({
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
});
static_assert(std::is_sorted(kTypes.begin(), kTypes.end(),
                             [](const GgmlType& a, const GgmlType& b) { return a.id < b.id; }));

std::string describe(const std::string& file, const GgufTensor& tensor) {
  return display_name(file) + ": tensor " + quote(tensor.name) + " is " +
         std::string(tensor.type->name) + " of shape " + shape_string(tensor.shape());
}

}  // namespace

std::string_view to_string(GgufValueType type) noexcept {
  constexpr std::array<std::string_view, 13> kNames{"u8",  "i8",  "u16",  "i16",    "u32",
                                                    "i32", "f32", "bool", "string", "array",
                                                    "u64", "i64", "f64"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

const GgmlType* find_ggml_type(std::uint32_t id) noexcept {
  for (const GgmlType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

Result<std::uint64_t> ggml_bytes(const GgmlType& type, std::span<const std::int64_t> shape) {
  if (shape.size() > kGgufMaxRank) {
    return Status::error(StatusCode::bad_data, "has %zu dimensions, at most %u are possible",
                         shape.size(), kGgufMaxRank);
  }
  const Result<ShapeProduct> product = shape_product(shape);
  if (!product.is_ok()) return product.status();
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (row % type.block != 0) {
    return Status::error(StatusCode::bad_data, "rows have %s, %s needs a multiple of %u",
                         count(static_cast<std::uint64_t>(row), "element").c_str(),
                         type.name.data(), type.block);
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(product->elements() / type.block, type.bytes, &bytes)) {
    return Status::error(StatusCode::bad_data, "shape %s of %s has more bytes than 63 bits count",
                         shape_string(shape).c_str(), type.name.data());
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<ConstMatrix> GgufFile::float_matrix(const GgufTensor& tensor) const {
  DType dtype = DType::f32;
  if (tensor.type->id == kGgmlF16) {
    dtype = DType::f16;
  } else if (tensor.type->id == kGgmlBF16) {
    dtype = DType::bf16;
  } else if (tensor.type->id != kGgmlF32) {
    return Status::error(StatusCode::unsupported, "%s, needs to be F32, F16 or BF16",
                         describe(name(), tensor).c_str());
  }
  if (tensor.rank == 0) {
    return Status::error(StatusCode::unsupported, "%s, needs at least one dimension",
                         describe(name(), tensor).c_str());
  }
  std::int64_t rows = 1;
  for (std::uint32_t i = 0; i + 1 < tensor.rank; ++i) rows *= tensor.dims[i];
  const std::int64_t cols = tensor.dims[tensor.rank - 1];
  return ConstMatrix(tensor.data.data(), dtype, rows, cols, cols);
}

Result<Weights> GgufFile::weights(const GgufTensor& tensor) const {
  if (tensor.type->id != kGgmlMXFP4) {
    return Status::error(StatusCode::unsupported, "%s, needs to be MXFP4",
                         describe(name(), tensor).c_str());
  }
  if (tensor.rank < 1 || tensor.rank > 3 || tensor.data.empty()) {
    return Status::error(StatusCode::unsupported,
                         "%s, needs to be [K], [N, K] or [E, N, K] without a 0",
                         describe(name(), tensor).c_str());
  }
  const std::int64_t k = tensor.dims[tensor.rank - 1];
  const std::int64_t n = tensor.rank > 1 ? tensor.dims[tensor.rank - 2] : 1;
  const std::int64_t num_experts = tensor.rank > 2 ? tensor.dims[0] : 1;
  Weights::Options options;
  options.num_experts = num_experts;
  options.keep_alive = impl_;
  return Weights::from_gguf(n, k, tensor.data, options);
}

}  // namespace mxgemm::io
