// Text in messages and in JSON: shortened names, UTF-8, escapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace mxgemm::io {

/// Offset of the first byte that is not valid UTF-8 (no overlong forms, no surrogates), or size().
std::size_t find_invalid_utf8(std::string_view text) noexcept;

/// One line for a message: control characters and broken UTF-8 as \xNN, cut after `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 100);
/// The same in single quotes.
std::string quote(std::string_view text, std::size_t limit = 100);
/// A path for a message; a long one keeps its end.
std::string display_name(const std::filesystem::path& path);

/// A JSON string literal of valid UTF-8.
std::string json_string(std::string_view text);

/// "1 byte", "2 bytes".
std::string count(std::uint64_t n, std::string_view noun);

}  // namespace mxgemm::io
