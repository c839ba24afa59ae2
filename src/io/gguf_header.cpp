// One pass over the bytes. A count is believed only as far as the rest of the file can hold so many
// things, and only then memory is taken for them, at most kMaxBookkeeping beyond the file's size.
#include "io/gguf_header.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "io/json_scan.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

constexpr int kMaxNesting = 4;                           // arrays of arrays; real files have 1
constexpr std::uint64_t kMinEntry = 8 + 1 + 4 + 1;       // key length, key, type, value
constexpr std::uint64_t kMinTensor = 8 + 1 + 4 + 4 + 8;  // name, rank 0, type, offset

Status bad(const std::string& what, const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s: %s", what.c_str(), sentence.c_str());
}

// Bytes of a value of a fixed size; 0 for strings, arrays and unknown types.
std::uint64_t value_bytes(std::uint32_t type) noexcept {
  constexpr std::array<std::uint8_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

bool is_string_or_array(std::uint32_t type) noexcept {
  return type == static_cast<std::uint32_t>(GgufValueType::string) ||
         type == static_cast<std::uint32_t>(GgufValueType::array);
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  std::uint64_t at() const noexcept { return at_; }
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }
  std::span<const std::uint8_t> since(std::uint64_t begin) const noexcept {
    return bytes_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(at_ - begin));
  }

  bool skip(std::uint64_t n) noexcept {
    if (n > left()) return false;
    at_ += n;
    return true;
  }
  bool u32(std::uint32_t& value) noexcept {
    std::uint64_t wide = 0;
    const bool ok = integer(4, wide);
    value = static_cast<std::uint32_t>(wide);
    return ok;
  }
  bool u64(std::uint64_t& value) noexcept { return integer(8, value); }

 private:
  bool integer(std::uint64_t width, std::uint64_t& value) noexcept {
    value = 0;
    if (!skip(width)) return false;
    for (std::uint64_t i = 1; i <= width; ++i) value = value << 8 | bytes_[at_ - i];
    return true;
  }

  std::span<const std::uint8_t> bytes_;
  std::uint64_t at_ = 0;
};

// What is cut off, and where.
Status ends(const std::string& what, const Cursor& cursor, std::string_view part) {
  return bad(what, "ends inside " + std::string(part) + ", after byte " +
                       std::to_string(cursor.at()) + " (is it cut off?)");
}

// The rest of a string whose length is still to come.
Status skip_string(Cursor& cursor, const std::string& what) {
  std::uint64_t length = 0;
  if (!cursor.u64(length)) return ends(what, cursor, "the length of a string");
  if (cursor.skip(length)) return {};
  return bad(what, "a string of " + count(length, "byte") + " does not fit in the " +
                       std::to_string(cursor.left()) + " that follow");
}

Status skip_booleans(Cursor& cursor, std::uint64_t n, const std::string& what) {
  const std::uint64_t begin = cursor.at();
  cursor.skip(n);
  for (const std::uint8_t byte : cursor.since(begin)) {
    if (byte > 1) return bad(what, "a bool is " + std::to_string(byte) + ", needs to be 0 or 1");
  }
  return {};
}

Status skip_value(Cursor& cursor, std::uint32_t type, const std::string& what, int depth = 0);

Status skip_array(Cursor& cursor, const std::string& what, int depth) {
  if (depth == kMaxNesting) {
    return bad(what, "arrays are nested more than " + std::to_string(kMaxNesting) + " deep");
  }
  std::uint32_t type = 0;
  std::uint64_t n = 0;
  if (!cursor.u32(type) || !cursor.u64(n)) return ends(what, cursor, "the head of an array");
  const std::uint64_t size = value_bytes(type);
  if (size == 0 && !is_string_or_array(type)) {
    return bad(what,
               "array elements have type " + std::to_string(type) + ", needs to be one of 0 to 12");
  }
  // An element that is not of fixed size has at least its length.
  const std::uint64_t least = size == 0 ? 8 : size;
  if (n > cursor.left() / least) {
    return bad(what, "an array of " + std::to_string(n) + " " +
                         std::string(to_string(static_cast<GgufValueType>(type))) +
                         " does not fit in the " + count(cursor.left(), "byte") + " that follow");
  }
  if (type == static_cast<std::uint32_t>(GgufValueType::boolean)) {
    return skip_booleans(cursor, n, what);
  }
  if (size != 0) {
    cursor.skip(n * size);
    return {};
  }
  for (std::uint64_t i = 0; i < n; ++i) {
    if (const Status status = skip_value(cursor, type, what, depth + 1); !status.is_ok()) {
      return status;
    }
  }
  return {};
}

Status skip_value(Cursor& cursor, std::uint32_t type, const std::string& what, int depth) {
  if (type == static_cast<std::uint32_t>(GgufValueType::string)) return skip_string(cursor, what);
  if (type == static_cast<std::uint32_t>(GgufValueType::array)) {
    return skip_array(cursor, what, depth);
  }
  const std::uint64_t size = value_bytes(type);
  if (size == 0) {
    return bad(what, "has type " + std::to_string(type) + ", needs to be one of 0 to 12");
  }
  if (size > cursor.left()) return ends(what, cursor, "a value");
  if (type == static_cast<std::uint32_t>(GgufValueType::boolean)) {
    return skip_booleans(cursor, 1, what);
  }
  cursor.skip(size);
  return {};
}

std::string_view text_of(std::span<const std::uint8_t> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A key or name, without the prefix "file: what".
std::string name_problem(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kGgufMaxName) {
    return "has " + count(name.size(), "byte") + ", at most " + std::to_string(kGgufMaxName) +
           " are allowed";
  }
  if (const std::size_t at = find_invalid_utf8(name); at != name.size()) {
    return quote(name) + " is not valid UTF-8 at byte " + std::to_string(at);
  }
  return {};
}

class Reader {
 public:
  Reader(std::span<const std::uint8_t> bytes, const std::string& file)
      : cursor_(bytes), bytes_(bytes), file_(file) {}

  Result<ParsedGguf> read() {
    if (const Status status = read_frame(); !status.is_ok()) return status;
    out_.metadata.reserve(static_cast<std::size_t>(num_entries_));
    for (std::uint64_t i = 0; i < num_entries_; ++i) {
      if (const Status status = read_entry(i); !status.is_ok()) return status;
    }
    for (const GgufEntry& entry : out_.metadata) {
      if (entry.key != kGgufAlignmentKey) continue;
      const Result<std::uint32_t> alignment = gguf_alignment(entry, file_);
      if (!alignment.is_ok()) return alignment.status();
      out_.alignment = *alignment;
    }
    // Once more: the metadata has taken its part.
    if (const Status status = check_count(num_tensors_, kMinTensor, "tensor"); !status.is_ok()) {
      return status;
    }
    out_.tensors.reserve(static_cast<std::size_t>(num_tensors_));
    offsets_.reserve(static_cast<std::size_t>(num_tensors_));
    for (std::uint64_t i = 0; i < num_tensors_; ++i) {
      if (const Status status = read_tensor(i); !status.is_ok()) return status;
    }
    if (const Status status = place_data(); !status.is_ok()) return status;
    return std::move(out_);
  }

 private:
  Status read_frame();
  Status check_count(std::uint64_t n, std::uint64_t least, const char* noun) const;
  Status read_name(const std::string& what, std::string_view& name);
  Status read_entry(std::uint64_t index);
  Status read_tensor(std::uint64_t index);
  Status place_data();

  Cursor cursor_;
  std::span<const std::uint8_t> bytes_;
  const std::string& file_;
  std::uint64_t num_tensors_ = 0, num_entries_ = 0;
  ParsedGguf out_;
  std::vector<std::uint64_t> offsets_;
};

Status Reader::read_frame() {
  constexpr std::uint64_t kFrame = 4 + 4 + 8 + 8;
  constexpr std::string_view kMagic = "GGUF";
  if (!text_of(bytes_).starts_with(kMagic)) {
    return bad(file_, "begins with " +
                          quote(text_of(bytes_.first(std::min<std::size_t>(bytes_.size(), 4)))) +
                          ", a GGUF file with 'GGUF'");
  }
  if (bytes_.size() < kFrame) {
    return bad(file_, "has " + count(bytes_.size(), "byte") +
                          ", a GGUF file has at least 24 (is it cut off?)");
  }
  cursor_.skip(kMagic.size());
  cursor_.u32(out_.version);
  cursor_.u64(num_tensors_);
  cursor_.u64(num_entries_);
  if (out_.version != 2 && out_.version != 3) {
    const bool swapped = (out_.version & 0xFFFF) == 0 && out_.version != 0;
    return Status::error(
        StatusCode::unsupported, "%s: is GGUF of version %u%s, needs to be 2 or 3", file_.c_str(),
        swapped ? __builtin_bswap32(out_.version) : out_.version,
        swapped ? " in big-endian, needs to be little-endian, and its version" : "");
  }
  if (const Status status = check_count(num_tensors_, kMinTensor, "tensor"); !status.is_ok()) {
    return status;
  }
  if (const Status status = check_count(num_entries_, kMinEntry, "metadata entry");
      !status.is_ok()) {
    return status;
  }
  // Beside each: its place in the order by name, its offset and its place in the order of data.
  const std::uint64_t memory =
      num_tensors_ * (sizeof(GgufTensor) + 16) + num_entries_ * (sizeof(GgufEntry) + 4);
  if (memory > bytes_.size() + kMaxBookkeeping) {
    return bad(file_, std::to_string(num_tensors_) + " tensors and " +
                          std::to_string(num_entries_) + " metadata entries need more than " +
                          std::to_string(bytes_.size() + kMaxBookkeeping) +
                          " bytes of memory, its size + 16 MiB");
  }
  return {};
}

Status Reader::check_count(std::uint64_t n, std::uint64_t least, const char* noun) const {
  if (n <= cursor_.left() / least) return {};
  return bad(file_, "the number of " + std::string(noun) + " records is " + std::to_string(n) +
                        ", " + count(cursor_.left(), "byte") + " follow and each needs at least " +
                        std::to_string(least));
}

Status Reader::read_name(const std::string& what, std::string_view& name) {
  std::uint64_t length = 0;
  if (!cursor_.u64(length)) return ends(file_, cursor_, "the name of " + what);
  const std::uint64_t begin = cursor_.at();
  if (!cursor_.skip(length)) {
    return bad(file_, "the name of " + what + " has " + count(length, "byte") + ", only " +
                          std::to_string(cursor_.left()) + " follow");
  }
  name = text_of(cursor_.since(begin));
  if (const std::string problem = name_problem(name); !problem.empty()) {
    return bad(file_, "the name of " + what + " " + problem);
  }
  return {};
}

Status Reader::read_entry(std::uint64_t index) {
  GgufEntry entry;
  const Status named = read_name("metadata entry " + std::to_string(index), entry.key);
  if (!named.is_ok()) return named;
  const std::string what = file_ + ": metadata " + quote(entry.key);
  std::uint32_t type = 0;
  if (!cursor_.u32(type)) return ends(what, cursor_, "its type");
  const std::uint64_t begin = cursor_.at();
  if (const Status status = skip_value(cursor_, type, what); !status.is_ok()) return status;
  entry.type = static_cast<GgufValueType>(type);
  entry.value = cursor_.since(begin);
  out_.metadata.push_back(entry);
  return {};
}

Status Reader::read_tensor(std::uint64_t index) {
  GgufTensor tensor;
  const Status named = read_name("tensor " + std::to_string(index), tensor.name);
  if (!named.is_ok()) return named;
  const std::string what = file_ + ": tensor " + quote(tensor.name);
  if (!cursor_.u32(tensor.rank)) return ends(what, cursor_, "its number of dimensions");
  if (tensor.rank > kGgufMaxRank) {
    return bad(what, "has " + std::to_string(tensor.rank) + " dimensions, at most " +
                         std::to_string(kGgufMaxRank) + " are possible");
  }
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    std::uint64_t dim = 0;
    if (!cursor_.u64(dim)) return ends(what, cursor_, "its dimensions");
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad(what, "dimension " + std::to_string(i) + " is " + std::to_string(dim) +
                           ", needs to be at most 2^63 - 1");
    }
    tensor.dims[tensor.rank - 1 - i] = static_cast<std::int64_t>(dim);
  }
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  if (!cursor_.u32(type)) return ends(what, cursor_, "its tensor type");
  if (!cursor_.u64(offset)) return ends(what, cursor_, "its offset");
  tensor.type = find_ggml_type(type);
  if (tensor.type == nullptr) {
    return Status::error(StatusCode::unsupported,
                         "%s: ggml type %u is unknown here (39 is MXFP4, 0, 1 and 30 are floats)",
                         what.c_str(), type);
  }
  if (const auto bytes = ggml_bytes(*tensor.type, tensor.shape()); !bytes.is_ok()) {
    return bad(what, bytes.status().c_str());
  }
  if (offset % out_.alignment != 0) {
    return bad(what, "offset is " + std::to_string(offset) + ", needs to be a multiple of " +
                         std::to_string(out_.alignment));
  }
  offsets_.push_back(offset);
  out_.tensors.push_back(tensor);
  return {};
}

// Only now it is known where the data begins.
Status Reader::place_data() {
  // The alignment is below 2^32: no overflow.
  const std::uint64_t begin = align_up(cursor_.at(), out_.alignment);
  // Writers leave the padding out when no tensor follows.
  out_.data =
      bytes_.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(begin, bytes_.size())));
  for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
    GgufTensor& tensor = out_.tensors[i];
    const std::uint64_t size = *ggml_bytes(*tensor.type, tensor.shape());
    const std::uint64_t offset = offsets_[i];
    if (offset > out_.data.size() || size > out_.data.size() - offset) {
      return bad(file_, "tensor " + quote(tensor.name) + " has " + count(size, "byte") +
                            " from offset " + std::to_string(offset) + ", the data has only " +
                            std::to_string(out_.data.size()) + " in all (is the file cut off?)");
    }
    tensor.data =
        out_.data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  }
  return {};
}

}  // namespace

Result<ParsedGguf> parse_gguf_header(std::span<const std::uint8_t> bytes, const std::string& file) {
  return Reader(bytes, file).read();
}

Status check_gguf_value(GgufValueType type, std::span<const std::uint8_t> value,
                        const std::string& what) {
  Cursor cursor(value);
  const Status status = skip_value(cursor, static_cast<std::uint32_t>(type), what);
  if (!status.is_ok() || cursor.left() == 0) return status;
  return bad(what, count(cursor.left(), "byte") + " more than the value has");
}

Result<std::uint32_t> gguf_alignment(const GgufEntry& entry, const std::string& file) {
  const std::string what = file + ": metadata " + quote(entry.key);
  if (entry.type != GgufValueType::u32) {
    return bad(what, "is of type " + std::string(to_string(entry.type)) + ", needs to be u32");
  }
  std::uint32_t alignment = 0;
  Cursor(entry.value).u32(alignment);
  if (std::has_single_bit(alignment)) return alignment;
  return bad(what, "is " + std::to_string(alignment) + ", needs to be a power of two");
}

}  // namespace mxgemm::io
