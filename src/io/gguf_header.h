// What comes before the data of a GGUF file: read, checked, and written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf.h"

namespace mxgemm::io {

inline constexpr std::uint64_t kGgufMaxName = 65'535;  // bytes of a name or key, as specified

/// `value` rounded up to a multiple of a power of two, which must fit.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

struct ParsedGguf {
  std::uint32_t version = 0;
  std::uint32_t alignment = kGgufDefaultAlignment;
  std::vector<GgufEntry> metadata;
  std::vector<GgufTensor> tensors;
  std::span<const std::uint8_t> data;  // from the first aligned byte after the infos
};

/// Reads a file up to its data. Each entry and tensor is checked by itself, not against the others.
/// Heap stays below the file's size + 16 MiB whatever the file says.
Result<ParsedGguf> parse_gguf_header(std::span<const std::uint8_t> bytes, const std::string& file);

/// Are these bytes one value of this type, to the last byte? `what` begins the error's sentence.
Status check_gguf_value(GgufValueType type, std::span<const std::uint8_t> value,
                        const std::string& what);

/// The alignment that a general.alignment entry says.
Result<std::uint32_t> gguf_alignment(const GgufEntry& entry, const std::string& file);

/// First bytes of a file of version 3, up to the padding before the data.
struct BuiltGgufHeader {
  std::string bytes;
  std::uint32_t alignment = kGgufDefaultAlignment;
  std::vector<std::uint64_t> tensor_bytes;  // without padding
};
Result<BuiltGgufHeader> build_gguf_header(std::span<const GgufTensorSpec> tensors,
                                          std::span<const GgufEntry> metadata,
                                          const std::string& file);

}  // namespace mxgemm::io
