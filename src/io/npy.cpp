#include "io/npy.h"

#include <new>

#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/npy_header.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 65'535;  // all that version 1 can have
constexpr std::size_t kAlignment = 64;

Status bad(const std::string& file, const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s: %s", file.c_str(), sentence.c_str());
}

// Bytes of an array; order of the dimensions and zeros among them make no difference.
bool array_bytes(NpyType type, std::span<const std::int64_t> shape, std::uint64_t& out) {
  std::int64_t product = size_of(type);
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return false;
    empty = empty || dim == 0;
    if (dim != 0 && __builtin_mul_overflow(product, dim, &product)) return false;
  }
  out = empty ? 0 : static_cast<std::uint64_t>(product);
  return true;
}

}  // namespace

Result<NpyArray> parse_npy(std::span<const std::uint8_t> bytes, const std::string& name) try {
  const std::string file = display_name(name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < kMagic.size() + 4) {
    return bad(file, "has " + count(text.size(), "byte") + ", a .npy file has at least 10");
  }
  if (!text.starts_with(kMagic)) return bad(file, "is not a .npy file: it has another magic");
  const unsigned major = bytes[6], minor = bytes[7];
  if (major < 1 || major > 3 || minor != 0) {
    return bad(file, "has .npy version " + std::to_string(major) + "." + std::to_string(minor) +
                         ", needs 1.0, 2.0 or 3.0");
  }
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (text.size() < prefix) return bad(file, "ends inside the header's length");
  std::size_t length = 0;
  for (std::size_t i = prefix; i-- > 8;) length = length << 8 | bytes[i];
  if (length > kMaxHeaderBytes) {
    return bad(file, "header length " + std::to_string(length) + " is above the limit of " +
                         std::to_string(kMaxHeaderBytes) + " bytes");
  }
  if (length > text.size() - prefix) {
    return bad(file, "header length " + std::to_string(length) + " reaches beyond the file of " +
                         count(text.size(), "byte"));
  }
  Result<NpyHeader> header = parse_npy_header(text.substr(prefix, length), file);
  if (!header.is_ok()) return header.status();
  const std::string what =
      "shape " + shape_string(header->shape) + " of " + to_string(header->type);
  std::uint64_t needed = 0;
  if (!array_bytes(header->type, header->shape, needed)) {
    return bad(file, what + " has more bytes than 63 bits count");
  }
  const auto data = bytes.subspan(prefix + length);
  if (data.size() < needed) {
    return bad(file, what + " needs " + count(needed, "byte") + " of data, the file has " +
                         std::to_string(data.size()));
  }
  if (data.size() > needed) {
    return bad(file, count(data.size() - needed, "trailing byte") + " after the data of " + what);
  }
  return NpyArray{header->type, std::move(header->shape), {data.begin(), data.end()}};
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for an array of %zu bytes",
                       bytes.size());
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.is_ok()) return file.status();
  return parse_npy(file->bytes(), path.native());
}

Status write_npy(const std::filesystem::path& path, NpyType type,
                 std::span<const std::int64_t> shape, std::span<const std::uint8_t> data) try {
  std::uint64_t needed = 0;
  if (!array_bytes(type, shape, needed) || needed != data.size()) {
    return Status::error(StatusCode::invalid_argument,
                         "%s: %zu bytes of data are given, shape %s of %s needs %llu",
                         display_name(path).c_str(), data.size(), shape_string(shape).c_str(),
                         to_string(type), static_cast<unsigned long long>(needed));
  }
  std::string header = npy_header(type, shape);
  // NumPy aligns the data: the header ends with spaces and a newline.
  const std::size_t total = (10 + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(total - 11, ' ');
  header += '\n';
  std::string prefix(kMagic);
  for (const std::size_t byte :
       {std::size_t{1}, std::size_t{0}, header.size() & 0xFF, header.size() >> 8}) {
    prefix += static_cast<char>(byte);
  }
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.is_ok()) return file.status();
  for (const std::string_view part : {std::string_view(prefix), std::string_view(header)}) {
    if (const Status status = file->write(part); !status.is_ok()) return status;
  }
  if (const Status status = file->write(data); !status.is_ok()) return status;
  return file->commit();
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for the header of a file to write");
}

}  // namespace mxgemm::io
