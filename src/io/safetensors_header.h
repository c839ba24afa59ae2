// The JSON header of a safetensors file: read and checked, and written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace mxgemm::io {

struct ParsedHeader {
  std::vector<TensorView> tensors;  // in the header's order, names not yet unique
  Metadata metadata;
};

/// Reads the header's text for a file whose tensor data is `data`. Each tensor is checked by
/// itself, not against the others. Heap stays below the file's size + 64 MiB whatever the text is.
Result<ParsedHeader> parse_header(std::string_view text, std::span<const std::uint8_t> data,
                                  const std::string& file);

/// First bytes of a file: length, JSON padded with spaces to a multiple of 8.
struct BuiltHeader {
  std::string bytes;
  std::vector<std::uint64_t> ends;  // where each tensor's data ends
};
Result<BuiltHeader> build_header(std::span<const TensorSpec> tensors, const Metadata& metadata,
                                 const std::string& file);

}  // namespace mxgemm::io
