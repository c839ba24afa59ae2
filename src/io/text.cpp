#include "io/text.h"

namespace mxgemm::io {
namespace {

constexpr char kHex[] = "0123456789abcdef";

unsigned byte_at(std::string_view text, std::size_t i) noexcept {
  return static_cast<unsigned char>(text[i]);
}

// Length of the valid sequence at i, or 0. Limits on the second byte exclude overlong forms,
// surrogates and values above U+10FFFF.
std::size_t sequence_length(std::string_view text, std::size_t i) noexcept {
  const unsigned first = byte_at(text, i);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if ((first & 0xF0) == 0xE0) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() - i < length) return 0;
  if (byte_at(text, i + 1) < low || byte_at(text, i + 1) > high) return 0;
  for (std::size_t j = 2; j < length; ++j) {
    if ((byte_at(text, i + j) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t length = sequence_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return i;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= limit) return out + "...";
    const std::size_t length = sequence_length(text, i);
    const unsigned c = byte_at(text, i);
    if (length == 0 || c < 0x20 || c == 0x7F) {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

std::string quote(std::string_view text, std::size_t limit) {
  return "'" + printable(text, limit) + "'";
}

std::string display_name(const std::filesystem::path& path) {
  constexpr std::size_t kLimit = 160;
  const std::string& text = path.native();
  if (text.size() <= kLimit) return printable(text, kLimit);
  return "..." + printable(std::string_view(text).substr(text.size() - kLimit), kLimit);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char ch : text) {
    const auto c = static_cast<unsigned char>(ch);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += ch;
    } else if (c < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += ch;
    }
  }
  return out + '"';
}

std::string count(std::uint64_t n, std::string_view noun) {
  std::string out = std::to_string(n) + ' ';
  out += noun;
  if (n != 1) out += 's';
  return out;
}

}  // namespace mxgemm::io
