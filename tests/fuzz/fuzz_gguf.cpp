// Any bytes as a GGUF file, as they are and with a legal frame around them. What is accepted must
// be readable to the last byte, and say the same again after it is written and read once more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/gguf_header.h"
#include "require.h"

namespace {

using namespace mxgemm;
using namespace mxgemm::io;

// Reads all that the views give access to; the sanitizers watch the bounds.
void touch(const GgufFile& file) {
  volatile std::uint8_t sink = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    for (const std::uint8_t byte : tensor.data) sink = byte;
    MXGEMM_REQUIRE(file.find(tensor.name) == &tensor);
    if (const auto matrix = file.float_matrix(tensor); matrix.is_ok()) {
      MXGEMM_REQUIRE(matrix->rows * matrix->cols * size_of(matrix->dtype) ==
                     static_cast<std::int64_t>(tensor.data.size()));
    }
    if (const auto weights = file.weights(tensor); weights.is_ok()) {
      MXGEMM_REQUIRE(weights->codes().data() == tensor.data.data());
      MXGEMM_REQUIRE(weights->codes().size() == tensor.data.size());
    }
    file.release(tensor);
  }
  for (const GgufEntry& entry : file.metadata()) {
    for (const std::uint8_t byte : entry.value) sink = byte;
    for (const char c : gguf_text(entry)) sink = static_cast<std::uint8_t>(c);
    MXGEMM_REQUIRE(file.find_metadata(entry.key) == &entry);
  }
  static_cast<void>(sink);
}

void rewrite(const GgufFile& file) {
  // A larger alignment is legal, and only makes padding.
  if (file.alignment() > 4096) return;
  const auto pad = [&](std::string& bytes) {
    bytes.resize(static_cast<std::size_t>(align_up(bytes.size(), file.alignment())), '\0');
  };
  std::vector<GgufTensorSpec> specs;
  for (const GgufTensor& tensor : file.tensors())
    specs.push_back({tensor.name, tensor.type->id, tensor.shape()});
  const auto header = build_gguf_header(specs, file.metadata(), "again");
  MXGEMM_REQUIRE(header.is_ok());
  MXGEMM_REQUIRE(header->alignment == file.alignment());
  std::string bytes = header->bytes;
  pad(bytes);
  std::string data;
  for (const GgufTensor& tensor : file.tensors()) {
    data.append(tensor.data.begin(), tensor.data.end());
    pad(data);
  }
  bytes += data;
  const auto again =
      GgufFile::parse({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "again");
  MXGEMM_REQUIRE(again.is_ok());
  MXGEMM_REQUIRE(again->tensors().size() == file.tensors().size());
  MXGEMM_REQUIRE(again->metadata().size() == file.metadata().size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const GgufTensor &a = file.tensors()[i], &b = again->tensors()[i];
    MXGEMM_REQUIRE(a.name == b.name && a.type == b.type && a.rank == b.rank && a.dims == b.dims);
    MXGEMM_REQUIRE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()));
  }
  for (std::size_t i = 0; i < file.metadata().size(); ++i) {
    const GgufEntry &a = file.metadata()[i], &b = again->metadata()[i];
    MXGEMM_REQUIRE(a.key == b.key && a.type == b.type);
    MXGEMM_REQUIRE(std::equal(a.value.begin(), a.value.end(), b.value.begin(), b.value.end()));
  }
}

void check(std::span<const std::uint8_t> bytes) {
  const auto file = GgufFile::parse(bytes, "fuzz");
  if (!file.is_ok()) {
    MXGEMM_REQUIRE(file.status().code() == StatusCode::bad_data ||
                   file.status().code() == StatusCode::unsupported);
    MXGEMM_REQUIRE(file.status().message().starts_with("fuzz: "));
    return;
  }
  touch(*file);
  rewrite(*file);
}

// The same input with the magic, a version and small counts: most mutations break only those.
std::vector<std::uint8_t> reframe(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kFrame = 24, kTensors = 8, kEntries = 16;
  std::vector<std::uint8_t> out(bytes.begin(), bytes.end());
  const std::uint8_t tensors = out[kTensors] % 4, entries = out[kEntries] % 4;
  std::fill(out.begin(), out.begin() + kFrame, std::uint8_t{0});
  constexpr std::uint8_t kHead[] = {'G', 'G', 'U', 'F', 3};
  std::copy(std::begin(kHead), std::end(kHead), out.begin());
  out[kTensors] = tensors;
  out[kEntries] = entries;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({data, size});
  if (size >= 24) check(reframe({data, size}));
  return 0;
}
