#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "io/gguf.h"
#include "io/gguf_header.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

Status wrong(const std::string& file, const std::string& sentence) {
  return Status::error(StatusCode::invalid_argument, "%s: %s", file.c_str(), sentence.c_str());
}

void put(std::string& out, std::uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

void put_text(std::string& out, std::string_view text) {
  put(out, text.size(), 8);
  out += text;
}

// `what` is "tensor" or "metadata key"; names are sorted on the way.
Status check_names(std::vector<std::string_view> names, const char* what, const std::string& file) {
  for (const std::string_view name : names) {
    const std::string shown = std::string(what) + " " + quote(name);
    if (name.empty()) return wrong(file, std::string("a ") + what + " to write is empty");
    if (name.size() > kGgufMaxName) {
      return wrong(file, shown + " has " + count(name.size(), "byte") + ", at most " +
                             std::to_string(kGgufMaxName) + " are allowed");
    }
    if (find_invalid_utf8(name) != name.size()) return wrong(file, shown + " is not UTF-8");
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return wrong(file, std::string(what) + " " + quote(*twice) + " is given twice");
}

// Appends the entries; an alignment among them goes to out.alignment.
Status put_metadata(std::span<const GgufEntry> metadata, const std::string& file,
                    BuiltGgufHeader& out) {
  for (const GgufEntry& entry : metadata) {
    const Status value =
        check_gguf_value(entry.type, entry.value, file + ": metadata " + quote(entry.key));
    if (!value.is_ok()) {
      return Status::error(StatusCode::invalid_argument, "%s", value.c_str());
    }
    if (entry.key == kGgufAlignmentKey) {
      const Result<std::uint32_t> alignment = gguf_alignment(entry, file);
      if (!alignment.is_ok()) {
        return Status::error(StatusCode::invalid_argument, "%s", alignment.status().c_str());
      }
      out.alignment = *alignment;
    }
    put_text(out.bytes, entry.key);
    put(out.bytes, static_cast<std::uint32_t>(entry.type), 4);
    out.bytes.append(entry.value.begin(), entry.value.end());
  }
  return {};
}

// Appends one tensor's info; `offset` is where its data begins, then where the next one's does.
Status put_tensor(const GgufTensorSpec& tensor, const std::string& file, std::uint64_t& offset,
                  BuiltGgufHeader& out) {
  const std::string shown = "tensor " + quote(tensor.name) + ": ";
  const GgmlType* const type = find_ggml_type(tensor.type);
  if (type == nullptr) {
    return wrong(file, shown + "ggml type " + std::to_string(tensor.type) + " is unknown here");
  }
  const Result<std::uint64_t> bytes = ggml_bytes(*type, tensor.shape);
  if (!bytes.is_ok()) return wrong(file, shown + bytes.status().c_str());
  put_text(out.bytes, tensor.name);
  put(out.bytes, tensor.shape.size(), 4);
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    put(out.bytes, static_cast<std::uint64_t>(tensor.shape[i]), 8);
  }
  put(out.bytes, type->id, 4);
  put(out.bytes, offset, 8);
  out.tensor_bytes.push_back(*bytes);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  // Both below 2^63: the sum is below 2^64.
  if (const std::uint64_t end = offset + *bytes; end <= kMost - out.alignment) {
    offset = align_up(end, out.alignment);
    return {};
  }
  return wrong(file, shown + "up to here the tensors have more bytes than a file can");
}

}  // namespace

std::string gguf_u32(std::uint32_t value) {
  std::string out;
  put(out, value, 4);
  return out;
}

std::string gguf_string(std::string_view text) {
  std::string out;
  put_text(out, text);
  return out;
}

std::string_view gguf_text(const GgufEntry& entry) noexcept {
  constexpr std::size_t kLength = 8;
  if (entry.type != GgufValueType::string || entry.value.size() < kLength) return {};
  return {reinterpret_cast<const char*>(entry.value.data()) + kLength,
          entry.value.size() - kLength};
}

Result<BuiltGgufHeader> build_gguf_header(std::span<const GgufTensorSpec> tensors,
                                          std::span<const GgufEntry> metadata,
                                          const std::string& file) {
  std::vector<std::string_view> names, keys;
  for (const GgufTensorSpec& tensor : tensors) names.push_back(tensor.name);
  for (const GgufEntry& entry : metadata) keys.push_back(entry.key);
  if (const Status s = check_names(std::move(names), "tensor name", file); !s.is_ok()) return s;
  if (const Status s = check_names(std::move(keys), "metadata key", file); !s.is_ok()) return s;
  BuiltGgufHeader out;
  out.bytes = "GGUF";
  put(out.bytes, 3, 4);
  put(out.bytes, tensors.size(), 8);
  put(out.bytes, metadata.size(), 8);
  if (const Status s = put_metadata(metadata, file, out); !s.is_ok()) return s;
  std::uint64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors) {
    if (const Status s = put_tensor(tensor, file, offset, out); !s.is_ok()) return s;
  }
  return out;
}

struct GgufWriter::Impl {
  AtomicFile file;
  std::string name;
  std::vector<std::string> tensors;
  std::vector<std::uint64_t> sizes;
  std::uint64_t alignment;
  std::size_t current = 0;    // the tensor that the next byte belongs to
  std::uint64_t written = 0;  // bytes of it
  std::uint64_t given = 0, total = 0;

  // Zeros after `bytes`, up to the alignment.
  Status pad(std::uint64_t bytes) {
    static constexpr std::array<std::uint8_t, 4096> kZeros{};
    for (std::uint64_t left = align_up(bytes, alignment) - bytes; left > 0;) {
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, kZeros.size()));
      if (const Status s = file.write(std::span(kZeros).first(piece)); !s.is_ok()) return s;
      left -= piece;
    }
    return {};
  }

  // Closes every tensor that is complete; those without bytes are so at once.
  Status close_tensors() {
    while (current < sizes.size() && written == sizes[current]) {
      if (const Status s = pad(written); !s.is_ok()) return s;
      ++current;
      written = 0;
    }
    return {};
  }
};

GgufWriter::GgufWriter(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

Result<GgufWriter> GgufWriter::create(const std::filesystem::path& path,
                                      std::span<const GgufTensorSpec> tensors,
                                      std::span<const GgufEntry> metadata) try {
  const std::string name = display_name(path);
  Result<BuiltGgufHeader> header = build_gguf_header(tensors, metadata, name);
  if (!header.is_ok()) return header.status();
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.is_ok()) return file.status();
  if (const Status status = file->write(header->bytes); !status.is_ok()) return status;
  auto impl = std::make_unique<Impl>(
      Impl{std::move(*file), name, {}, std::move(header->tensor_bytes), header->alignment});
  for (const std::uint64_t size : impl->sizes) impl->total += size;
  impl->tensors.reserve(tensors.size());
  for (const GgufTensorSpec& tensor : tensors) impl->tensors.emplace_back(tensor.name);
  if (const Status status = impl->pad(header->bytes.size()); !status.is_ok()) return status;
  if (const Status status = impl->close_tensors(); !status.is_ok()) return status;
  return GgufWriter(std::move(impl));
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for the header of a file to write");
}

Status GgufWriter::write(std::span<const std::uint8_t> bytes) {
  Impl& impl = *impl_;
  if (bytes.size() > impl.total - impl.given) {
    return wrong(impl.name,
                 "after " + count(impl.given, "byte") + " of data " + std::to_string(bytes.size()) +
                     " more are given, the tensors have " + std::to_string(impl.total) + " in all");
  }
  impl.given += bytes.size();
  while (!bytes.empty()) {
    const std::uint64_t left = impl.sizes[impl.current] - impl.written;
    const auto piece =
        bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    if (const Status status = impl.file.write(piece); !status.is_ok()) return status;
    impl.written += piece.size();
    bytes = bytes.subspan(piece.size());
    if (const Status status = impl.close_tensors(); !status.is_ok()) return status;
  }
  return {};
}

Status GgufWriter::commit() {
  Impl& impl = *impl_;
  if (impl.current < impl.sizes.size()) {
    return wrong(impl.name, "only " + std::to_string(impl.given) + " of " +
                                count(impl.total, "byte") + " of data were written, tensor " +
                                quote(impl.tensors[impl.current]) + " is not complete");
  }
  return impl.file.commit();
}

}  // namespace mxgemm::io
