#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

Status bad(const std::string& file, const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s: %s", file.c_str(), sentence.c_str());
}

std::uint64_t read_u64(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

std::string name_of(const TensorView* tensor) {
  return tensor == nullptr ? "the header" : quote(tensor->name);
}

// `tensor` begins before or after the end of the data so far.
std::string describe_gap(const TensorView* last, std::uint64_t covered, const TensorView& tensor,
                         std::uint64_t begin) {
  std::string range = std::to_string(std::min(begin, covered));
  range += " to " + std::to_string(std::max(begin, covered));
  if (begin < covered) {
    return "tensors " + name_of(last) + " and " + quote(tensor.name) + " overlap in data bytes " +
           range;
  }
  return "data bytes " + range + ", between " + name_of(last) + " and tensor " +
         quote(tensor.name) + ", are a hole: they belong to no tensor";
}

}  // namespace

struct SafetensorsFile::Impl {
  std::optional<MappedFile> mapping;  // none: the caller's bytes
  std::string name;                   // as opened
  std::string shown;                  // in messages
  std::span<const std::uint8_t> bytes, data;
  std::vector<TensorView> tensors;     // in order of their data
  std::vector<std::uint32_t> by_name;  // indices into tensors, sorted by name
  Metadata metadata;

  Status read();
  Status sort_by_name();
  Status check_cover() const;
};

Status SafetensorsFile::Impl::read() {
  if (bytes.size() < kLengthBytes) {
    return bad(shown, "has " + count(bytes.size(), "byte") +
                          ", a safetensors file has at least 8 (is it empty or cut off?)");
  }
  const std::uint64_t length = read_u64(bytes);
  if (length > kMaxHeaderBytes) {
    return bad(shown, "header length " + std::to_string(length) + " is above the limit of " +
                          std::to_string(kMaxHeaderBytes) +
                          " bytes (is it a safetensors file at all?)");
  }
  if (length > bytes.size() - kLengthBytes) {
    return bad(shown, "header length " + std::to_string(length) + " reaches beyond the file of " +
                          count(bytes.size(), "byte") + " (is it cut off?)");
  }
  const auto header = bytes.subspan(kLengthBytes, static_cast<std::size_t>(length));
  data = bytes.subspan(static_cast<std::size_t>(kLengthBytes + length));
  Result<ParsedHeader> parsed =
      parse_header({reinterpret_cast<const char*>(header.data()), header.size()}, data, shown);
  if (!parsed.is_ok()) return parsed.status();
  tensors = std::move(parsed->tensors);
  metadata = std::move(parsed->metadata);
  // The header's order says nothing; it may differ from the order of the data.
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
    if (a.data.size() != b.data.size()) return a.data.size() < b.data.size();
    return a.name < b.name;
  });
  if (const Status status = sort_by_name(); !status.is_ok()) return status;
  return check_cover();
}

Status SafetensorsFile::Impl::sort_by_name() {
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(),
            [this](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  const auto twice = std::adjacent_find(
      by_name.begin(), by_name.end(),
      [this](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twice == by_name.end()) return {};
  return bad(shown, "the header has tensor " + quote(tensors[*twice].name) + " twice");
}

// Every byte of data must belong to exactly one tensor.
Status SafetensorsFile::Impl::check_cover() const {
  std::uint64_t covered = 0;
  const TensorView* last = nullptr;  // the one that reaches to `covered`
  for (const TensorView& tensor : tensors) {
    const auto begin = static_cast<std::uint64_t>(tensor.data.data() - data.data());
    if (begin != covered) return bad(shown, describe_gap(last, covered, tensor, begin));
    covered = begin + tensor.data.size();
    if (!tensor.data.empty()) last = &tensor;
  }
  if (covered == data.size()) return {};
  return bad(shown, count(data.size() - covered, "byte") + " of data after " + name_of(last) +
                        " belong to no tensor");
}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const Impl> impl) noexcept
    : impl_(std::move(impl)) {}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) try {
  Result<MappedFile> mapping = MappedFile::open(path);
  if (!mapping.is_ok()) return mapping.status();
  auto impl = std::make_shared<Impl>();
  impl->bytes = mapping->bytes();
  impl->mapping = std::move(*mapping);
  impl->name = path.string();
  impl->shown = display_name(path);
  if (const Status status = impl->read(); !status.is_ok()) return status;
  return SafetensorsFile(std::move(impl));
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "%s: no memory for its header (%s)", path.c_str(),
                       e.what());
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::uint8_t> bytes,
                                               std::string name) try {
  auto impl = std::make_shared<Impl>();
  impl->bytes = bytes;
  impl->shown = display_name(name);
  impl->name = std::move(name);
  if (const Status status = impl->read(); !status.is_ok()) return status;
  return SafetensorsFile(std::move(impl));
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "no memory for a safetensors header (%s)",
                       e.what());
}

const std::string& SafetensorsFile::name() const noexcept {
  return impl_->name;
}
std::span<const TensorView> SafetensorsFile::tensors() const noexcept {
  return impl_->tensors;
}
const Metadata& SafetensorsFile::metadata() const noexcept {
  return impl_->metadata;
}
std::uint64_t SafetensorsFile::file_bytes() const noexcept {
  return impl_->bytes.size();
}
std::uint64_t SafetensorsFile::header_bytes() const noexcept {
  return impl_->bytes.size() - impl_->data.size() - kLengthBytes;
}
std::shared_ptr<const void> SafetensorsFile::keep_alive() const noexcept {
  return impl_;
}

const TensorView* SafetensorsFile::find(std::string_view tensor) const noexcept {
  const auto& by_name = impl_->by_name;
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), tensor,
      [this](std::uint32_t i, std::string_view name) { return impl_->tensors[i].name < name; });
  if (at == by_name.end() || impl_->tensors[*at].name != tensor) return nullptr;
  return &impl_->tensors[*at];
}

void SafetensorsFile::release(const TensorView& tensor) const noexcept {
  if (impl_->mapping.has_value()) MappedFile::release(tensor.data);
}

}  // namespace mxgemm::io
