// A first pass over JSON text, before the real parser sees it: cheap, without allocation, and the
// place that bounds what the parser may be made to do (nesting, token length).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mxgemm/status.h"

namespace mxgemm::io {

/// The parser buffers a whole token, twice, and copies it into errors: these limits keep that
/// below 48 MiB. Real files stay far below them.
inline constexpr std::uint64_t kMaxJsonString = 4u << 20;
inline constexpr std::uint64_t kMaxJsonGap = 64u << 10;  // bytes without a string or number
inline constexpr std::uint64_t kMaxJsonNumber = 256;

/// Heap that what was read may take beyond the size of its file.
inline constexpr std::uint64_t kMaxBookkeeping = 16u << 20;

/// Heap bytes behind a std::string of this size, and behind a block of this size.
constexpr std::uint64_t block_bytes(std::uint64_t size) noexcept {
  return size == 0 ? 0 : (size + 8 + 15) / 16 * 16;  // the allocator's header and granularity
}
constexpr std::uint64_t string_heap_bytes(std::uint64_t size) noexcept {
  return size < 16 ? 0 : block_bytes(size + 1);
}

struct JsonScan {
  std::string_view text;      // without the white space at the end
  std::uint64_t objects = 0;  // '{' outside strings
  std::uint64_t members = 0;  // ':' outside strings
};

/// Checks that text is UTF-8, one object and nothing after it, nested at most max_depth deep,
/// within the limits above. Brackets and strings only: the parser judges the rest.
/// `what` begins the error's sentence: "model.safetensors: the header".
Result<JsonScan> scan_json(std::string_view text, const std::string& what, int max_depth);

/// The reason in a parser exception's text, without its prefix, for a message.
std::string json_error_reason(std::string_view exception_text);

}  // namespace mxgemm::io
