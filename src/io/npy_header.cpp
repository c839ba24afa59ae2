#include "io/npy_header.h"

#include <algorithm>
#include <array>
#include <limits>

#include "io/text.h"

namespace mxgemm::io {
namespace {

constexpr std::size_t kMaxRank = 64;  // as NumPy 2

struct TypeRow {
  NpyType type;
  const char* descr;
  std::int64_t bytes;
};
constexpr std::array kTypes = std::to_array<TypeRow>({{NpyType::f2, "<f2", 2},
                                                      {NpyType::f4, "<f4", 4},
                                                      {NpyType::f8, "<f8", 8},
                                                      {NpyType::u1, "|u1", 1},
                                                      {NpyType::u2, "<u2", 2},
                                                      {NpyType::i1, "|i1", 1},
                                                      {NpyType::i4, "<i4", 4},
                                                      {NpyType::i8, "<i8", 8}});

const TypeRow& row_of(NpyType type) noexcept {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [type](const TypeRow& row) { return row.type == type; });
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<NpyHeader> read() {
    if (!take('{')) return bad("is not a dict: " + here());
    while (!take('}')) {
      Status status = read_entry();
      if (!status.is_ok()) return status;
      if (take(',')) continue;
      if (take('}')) break;
      return bad("needs ',' or '}' at " + here());
    }
    skip_space();
    if (at_ != text_.size()) return bad("has trailing text after the dict: " + here());
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      if (!seen_[i]) return bad("has no key " + quote(kKeys[i]));
    }
    return header_;
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys{"descr", "fortran_order", "shape"};

  Status bad(const std::string& sentence) const {
    return Status::error(StatusCode::bad_data, "%s: the header %s", file_.c_str(),
                         sentence.c_str());
  }
  std::string here() const {
    if (at_ >= text_.size()) return "its end";
    return quote(text_.substr(at_), 20) + " at byte " + std::to_string(at_);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status read_string(std::string_view& out) {
    skip_space();
    const char delimiter = at_ < text_.size() ? text_[at_] : '\0';
    if (delimiter != '\'' && delimiter != '"') return bad("needs a string at " + here());
    const std::size_t end = text_.find(delimiter, at_ + 1);
    if (end == std::string_view::npos) return bad("has a string without end: " + here());
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return {};
  }

  Status read_entry() {
    std::string_view key;
    if (const Status status = read_string(key); !status.is_ok()) return status;
    const auto known = std::find(kKeys.begin(), kKeys.end(), key);
    if (known == kKeys.end()) return bad("has an unknown key " + quote(key));
    bool& seen = seen_[static_cast<std::size_t>(known - kKeys.begin())];
    if (seen) return bad("has key " + quote(key) + " twice");
    seen = true;
    if (!take(':')) return bad("needs ':' at " + here());
    if (key == "descr") return read_descr();
    return key == "shape" ? read_shape() : read_order();
  }

  Status read_descr() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      return bad("has a structured descr " + here() + ", needs one number type");
    }
    std::string_view descr;
    if (const Status status = read_string(descr); !status.is_ok()) return status;
    const std::string_view kind = descr.substr(descr.empty() ? 0 : 1);
    for (const TypeRow& row : kTypes) {
      const std::string_view wanted(row.descr);
      if (kind != wanted.substr(1)) continue;
      const char order = descr.front();
      if (order == '>' && row.bytes > 1) {
        return bad("says " + quote(descr) + ", which is big-endian, needs " + quote(wanted));
      }
      if (order != '<' && order != '|' && order != '=') break;
      header_.type = row.type;
      return {};
    }
    if (kind.starts_with('O')) {
      return bad("says " + quote(descr) + ", Python objects, which are never read");
    }
    if (kind == "V2") {
      return bad("says " + quote(descr) + ": save bfloat16 as its bits, x.view(numpy.uint16)");
    }
    return bad("says descr " + quote(descr, 40) + ", needs one of <f2 <f4 <f8 |u1 <u2 |i1 <i4 <i8");
  }

  Status read_order() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("True")) {
      return bad("says fortran_order True, needs C order: numpy.ascontiguousarray(x)");
    }
    if (!rest.starts_with("False")) return bad("needs False for fortran_order at " + here());
    at_ += 5;
    return {};
  }

  Status read_shape() {
    if (!take('(')) return bad("needs a tuple for shape at " + here());
    bool comma = true;
    while (!take(')')) {
      if (!comma) return bad("needs ',' or ')' in shape at " + here());
      if (header_.shape.size() == kMaxRank) {
        return bad("has a shape of more than " + std::to_string(kMaxRank) + " dimensions");
      }
      std::int64_t dim = 0;
      if (const Status status = read_dim(dim); !status.is_ok()) return status;
      header_.shape.push_back(dim);
      comma = take(',');
    }
    // "(3)" is a number in Python, not a tuple.
    if (header_.shape.size() == 1 && !comma) return bad("needs ',' in a shape of one dimension");
    return {};
  }

  Status read_dim(std::int64_t& dim) {
    skip_space();
    const std::size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') return bad("has a negative dimension " + here());
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      const std::int64_t digit = text_[at_] - '0';
      if (dim > (std::numeric_limits<std::int64_t>::max() - digit) / 10) {
        at_ = begin;
        return bad("has a dimension beyond 63 bits: " + here());
      }
      dim = dim * 10 + digit;
    }
    if (at_ == begin) return bad("needs a dimension at " + here());
    return {};
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  NpyHeader header_;
  std::array<bool, 3> seen_{};
};

}  // namespace

std::int64_t size_of(NpyType type) noexcept {
  return row_of(type).bytes;
}
const char* to_string(NpyType type) noexcept {
  return row_of(type).descr;
}

Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& file) {
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != text.size()) {
    return Status::error(StatusCode::bad_data, "%s: the header is not valid UTF-8 at byte %zu",
                         file.c_str(), invalid);
  }
  return HeaderReader(text, file).read();
}

std::string npy_header(NpyType type, std::span<const std::int64_t> shape) {
  std::string out = "{'descr': '";
  out += to_string(type);
  out += "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return out + (shape.size() == 1 ? ",), }" : "), }");
}

}  // namespace mxgemm::io
