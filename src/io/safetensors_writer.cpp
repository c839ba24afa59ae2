#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

Status wrong(const std::string& file, const std::string& sentence) {
  return Status::error(StatusCode::invalid_argument, "%s: %s", file.c_str(), sentence.c_str());
}

bool is_utf8(std::string_view text) {
  return find_invalid_utf8(text) == text.size();
}

Status check_names(std::span<const TensorSpec> tensors, const Metadata& metadata,
                   const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    const std::string shown = "tensor " + quote(tensor.name);
    if (tensor.name.empty()) return wrong(file, "a tensor to write has an empty name");
    if (tensor.name == "__metadata__") {
      return wrong(file, shown + " has the name of the metadata");
    }
    if (!is_utf8(tensor.name)) return wrong(file, shown + " has a name that is not UTF-8");
    if (tensor.dtype.empty() || !is_utf8(tensor.dtype)) {
      return wrong(file, shown + " has dtype " + quote(tensor.dtype) + ", needs a name in UTF-8");
    }
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return wrong(file, "tensor " + quote(*twice) + " is given twice");
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      return wrong(file, "metadata " + quote(key) + " is not UTF-8");
    }
  }
  return {};
}

Result<std::uint64_t> spec_bytes(const TensorSpec& tensor, const std::string& file) {
  Result<std::uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  const std::string shown = "tensor " + quote(tensor.name) + ": ";
  if (bytes.is_ok()) {
    if (!tensor.num_bytes.has_value() || *tensor.num_bytes == *bytes) return bytes;
    return wrong(file, shown + "num_bytes is " + std::to_string(*tensor.num_bytes) + ", shape " +
                           shape_string(tensor.shape) + " needs " + std::to_string(*bytes));
  }
  if (bytes.status().code() == StatusCode::unsupported) {
    if (tensor.num_bytes.has_value()) return *tensor.num_bytes;
    return wrong(file, shown + bytes.status().c_str() + "; num_bytes has to say it");
  }
  return wrong(file, shown + bytes.status().c_str());
}

}  // namespace

Result<BuiltHeader> build_header(std::span<const TensorSpec> tensors, const Metadata& metadata,
                                 const std::string& file) {
  if (const Status status = check_names(tensors, metadata, file); !status.is_ok()) return status;
  BuiltHeader out;
  out.ends.reserve(tensors.size());
  out.bytes.assign(8, '\0');
  out.bytes += '{';
  const char* separator = "";
  if (!metadata.empty()) {
    out.bytes += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      out.bytes += separator + json_string(key) + ':' + json_string(value);
      separator = ",";
    }
    out.bytes += '}';
  }
  std::uint64_t begin = 0;
  for (const TensorSpec& tensor : tensors) {
    const Result<std::uint64_t> bytes = spec_bytes(tensor, file);
    if (!bytes.is_ok()) return bytes.status();
    std::uint64_t end = 0;
    if (__builtin_add_overflow(begin, *bytes, &end) ||
        end > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return wrong(file,
                   "the tensors up to " + quote(tensor.name) + " have more bytes than a file can");
    }
    out.bytes += separator + json_string(tensor.name) + ":{\"dtype\":" + json_string(tensor.dtype);
    out.bytes += ",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      out.bytes += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    }
    out.bytes += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(end) + "]}";
    separator = ",";
    out.ends.push_back(end);
    begin = end;
  }
  out.bytes += '}';
  out.bytes.resize((out.bytes.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = out.bytes.size() - 8;
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    return wrong(file, "the header would have " + std::to_string(length) + " bytes, at most " +
                           std::to_string(SafetensorsFile::kMaxHeaderBytes) +
                           " are allowed: split the tensors over several files");
  }
  for (unsigned i = 0; i < 8; ++i) out.bytes[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return out;
}

struct SafetensorsWriter::Impl {
  AtomicFile file;
  std::string name;
  std::vector<std::string> tensors;
  std::vector<std::uint64_t> ends;
  std::uint64_t written = 0;

  std::uint64_t total() const noexcept { return ends.empty() ? 0 : ends.back(); }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<Impl> impl) noexcept
    : impl_(std::move(impl)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    std::span<const TensorSpec> tensors,
                                                    const Metadata& metadata) try {
  const std::string name = display_name(path);
  Result<BuiltHeader> header = build_header(tensors, metadata, name);
  if (!header.is_ok()) return header.status();
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.is_ok()) return file.status();
  if (const Status status = file->write(header->bytes); !status.is_ok()) return status;
  auto impl = std::make_unique<Impl>(Impl{std::move(*file), name, {}, std::move(header->ends)});
  impl->tensors.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) impl->tensors.push_back(tensor.name);
  return SafetensorsWriter(std::move(impl));
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for the header of a file to write");
}

Status SafetensorsWriter::write(std::span<const std::uint8_t> bytes) {
  Impl& impl = *impl_;
  if (bytes.size() > impl.total() - impl.written) {
    return wrong(impl.name, "after " + count(impl.written, "byte") + " of data " +
                                std::to_string(bytes.size()) +
                                " more are given, the tensors have " +
                                std::to_string(impl.total()) + " in all");
  }
  impl.written += bytes.size();
  return impl.file.write(bytes);
}

Status SafetensorsWriter::commit() {
  Impl& impl = *impl_;
  if (impl.written < impl.total()) {
    const auto at = std::upper_bound(impl.ends.begin(), impl.ends.end(), impl.written);
    const auto index = static_cast<std::size_t>(at - impl.ends.begin());
    return wrong(impl.name, "only " + std::to_string(impl.written) + " of " +
                                count(impl.total(), "byte") + " of data were written, tensor " +
                                quote(impl.tensors[index]) + " is not complete");
  }
  return impl.file.commit();
}

}  // namespace mxgemm::io
