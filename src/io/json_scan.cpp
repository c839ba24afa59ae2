#include "io/json_scan.h"

#include "io/text.h"

namespace mxgemm::io {
namespace {

bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool begins_number(char c) noexcept {
  return (c >= '0' && c <= '9') || c == '-';
}
bool is_number(char c) noexcept {
  return begins_number(c) || c == '+' || c == '.' || c == 'e' || c == 'E';
}
bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20;
}

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& what, int max_depth) noexcept
      : what_(what), max_depth_(max_depth) {
    out_.text = text;
  }

  Result<JsonScan> run() {
    const std::string_view text = out_.text;
    if (text.empty() || text.front() != '{') {
      return bad("must begin with '{', begins with " +
                 (text.empty() ? "nothing: it is empty" : quote(text.substr(0, 1))));
    }
    const std::size_t invalid = find_invalid_utf8(text);
    if (invalid != text.size()) return bad("is not valid UTF-8 at byte " + std::to_string(invalid));
    std::size_t gap_begin = 0;
    for (std::size_t i = 0; i < text.size();) {
      const char c = text[i];
      if (i - gap_begin > kMaxJsonGap) {
        return bad("has more than " + std::to_string(kMaxJsonGap) +
                   " bytes without a string or number, from byte " + std::to_string(gap_begin));
      }
      if (is_control(c) && !is_space(c)) {
        return bad("has a control character " + quote(text.substr(i, 1)) + " at byte " +
                   std::to_string(i));
      }
      if (c == '"' || begins_number(c)) {
        const Status status = c == '"' ? skip_string(i) : skip_number(i);
        if (!status.is_ok()) return status;
        gap_begin = i;
        continue;
      }
      ++i;
      if (c == ':') ++out_.members;
      if (c == '{') ++out_.objects;
      if ((c == '{' || c == '[') && ++depth_ > max_depth_) {
        return bad("is nested more than " + std::to_string(max_depth_) + " deep at byte " +
                   std::to_string(i - 1));
      }
      if ((c == '}' || c == ']') && --depth_ == 0) return finish(i);
    }
    return bad("ends inside the JSON: " + count(static_cast<std::uint64_t>(depth_), "bracket") +
               " not closed");
  }

 private:
  Status bad(const std::string& sentence) const {
    return Status::error(StatusCode::bad_data, "%s %s", what_.c_str(), sentence.c_str());
  }

  Status skip_string(std::size_t& i) {
    const std::size_t begin = i++;
    while (i < out_.text.size() && out_.text[i] != '"') {
      if (is_control(out_.text[i])) {
        return bad("has a control character " + quote(out_.text.substr(i, 1)) +
                   " inside the string at byte " + std::to_string(begin));
      }
      i += out_.text[i] == '\\' ? 2 : 1;
      if (i - begin > kMaxJsonString) {
        return bad("has a string of more than " + std::to_string(kMaxJsonString) +
                   " bytes at byte " + std::to_string(begin));
      }
    }
    if (i >= out_.text.size()) {
      return bad("ends inside the string that begins at byte " + std::to_string(begin));
    }
    ++i;
    return {};
  }

  Status skip_number(std::size_t& i) {
    const std::size_t begin = i;
    while (i < out_.text.size() && is_number(out_.text[i])) ++i;
    if (i - begin <= kMaxJsonNumber) return {};
    return bad("has a number of " + std::to_string(i - begin) + " characters at byte " +
               std::to_string(begin) + "; at most " + std::to_string(kMaxJsonNumber) + " are read");
  }

  Result<JsonScan> finish(std::size_t end) {
    for (std::size_t i = end; i < out_.text.size(); ++i) {
      if (is_space(out_.text[i])) continue;
      return bad("has trailing bytes after the JSON: " + quote(out_.text.substr(i), 20) +
                 " at byte " + std::to_string(i));
    }
    out_.text = out_.text.substr(0, end);
    return out_;
  }

  const std::string& what_;
  const int max_depth_;
  int depth_ = 0;
  JsonScan out_;
};

}  // namespace

Result<JsonScan> scan_json(std::string_view text, const std::string& what, int max_depth) {
  return Scanner(text, what, max_depth).run();
}

std::string json_error_reason(std::string_view exception_text) {
  // "[json.exception.parse_error.101] parse error at line 1, column 8: syntax error while ..."
  const std::size_t column = exception_text.find("column ");
  if (column != std::string_view::npos) {
    const std::size_t colon = exception_text.find(": ", column);
    if (colon != std::string_view::npos) exception_text.remove_prefix(colon + 2);
  } else if (const std::size_t bracket = exception_text.find("] ");
             bracket != std::string_view::npos) {
    exception_text.remove_prefix(bracket + 2);
  }
  return printable(exception_text, 150);
}

}  // namespace mxgemm::io
