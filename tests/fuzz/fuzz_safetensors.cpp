// Any bytes as a safetensors file, and as the recipe of a legal one that is then damaged. What is
// accepted must be readable to the last byte, and say the same again after it is written and read
// once more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "recipe.h"
#include "require.h"

namespace {

using namespace mxgemm;
using namespace mxgemm::io;

// Reads all that the views give access to; the sanitizers watch the bounds.
void touch(const SafetensorsFile& file) {
  volatile std::uint8_t sink = 0;
  std::uint64_t data_bytes = 0;
  for (const TensorView& tensor : file.tensors()) {
    for (const std::uint8_t byte : tensor.data) sink = byte;
    data_bytes += tensor.data.size();
    MXGEMM_REQUIRE(file.find(tensor.name) == &tensor);
    MXGEMM_REQUIRE(tensor.num_elements() >= 0);
    if (const auto bytes = tensor_bytes(tensor.dtype, tensor.shape); bytes.is_ok()) {
      MXGEMM_REQUIRE(*bytes == tensor.data.size());
    }
    if (const auto matrix = as_float_matrix(tensor); matrix.is_ok()) {
      MXGEMM_REQUIRE(matrix->rows * matrix->cols * size_of(matrix->dtype) ==
                     static_cast<std::int64_t>(tensor.data.size()));
    }
    if (const auto view = as_bytes(tensor); view.is_ok()) {
      MXGEMM_REQUIRE(view->size() == tensor.data.size());
    }
    file.release(tensor);
  }
  static_cast<void>(sink);
  MXGEMM_REQUIRE(8 + file.header_bytes() + data_bytes == file.file_bytes());
}

void rewrite(const SafetensorsFile& file) {
  std::vector<TensorSpec> specs;
  std::string data;
  for (const TensorView& tensor : file.tensors()) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data.size()});
    data.append(tensor.data.begin(), tensor.data.end());
  }
  const auto header = build_header(specs, file.metadata(), "again");
  MXGEMM_REQUIRE(header.is_ok());
  const std::string bytes = header->bytes + data;
  const auto again = SafetensorsFile::parse(
      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "again");
  MXGEMM_REQUIRE(again.is_ok());
  MXGEMM_REQUIRE(again->metadata() == file.metadata());
  MXGEMM_REQUIRE(again->tensors().size() == file.tensors().size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorView &a = file.tensors()[i], &b = again->tensors()[i];
    MXGEMM_REQUIRE(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape);
    MXGEMM_REQUIRE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()));
  }
}

bool check(std::span<const std::uint8_t> bytes) {
  const auto file = SafetensorsFile::parse(bytes, "fuzz");
  if (!file.is_ok()) {
    MXGEMM_REQUIRE(file.status().code() == StatusCode::bad_data);
    MXGEMM_REQUIRE(file.status().message().starts_with("fuzz: "));
    return false;
  }
  touch(*file);
  rewrite(*file);
  return true;
}

// The same input with the length that its JSON has: most mutations break only that.
std::vector<std::uint8_t> reframe(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> out(bytes.begin(), bytes.end());
  std::size_t end = out.size();
  while (end > 8 && out[end - 1] != '}') --end;
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::uint8_t>((std::uint64_t{end} - 8) >> (8 * i));
  }
  return out;
}

// What the writer accepts, the reader accepts; with one byte changed it may refuse.
void check_recipe(fuzz::Recipe recipe) {
  const std::vector<TensorSpec> specs = recipe.tensors();
  const auto header = build_header(specs, recipe.metadata(), "fuzz");
  if (!header.is_ok()) {
    MXGEMM_REQUIRE(header.status().code() == StatusCode::invalid_argument);
    return;
  }
  std::vector<std::uint8_t> bytes(header->bytes.begin(), header->bytes.end());
  const std::uint64_t data_bytes = header->ends.empty() ? 0 : header->ends.back();
  for (std::uint64_t i = 0; i < data_bytes; ++i) bytes.push_back(recipe.byte());
  MXGEMM_REQUIRE(check(bytes));
  bytes[recipe.number() % bytes.size()] ^= static_cast<std::uint8_t>(recipe.byte() | 1);
  check(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!check({data, size}) && size > 8) check(reframe({data, size}));
  check_recipe(fuzz::Recipe({data, size}));
  return 0;
}
