#include <algorithm>
#include <fstream>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "io/gguf.h"
#include "io/gguf_header.h"
#include "io/mapped_file.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

Status bad(const std::string& file, const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s: %s", file.c_str(), sentence.c_str());
}

// Indices of items sorted by what `key` says of each.
template <class Item, class Key>
std::vector<std::uint32_t> sorted_by(const std::vector<Item>& items, Key key) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(items[a]) < key(items[b]); });
  return order;
}

// The item called `name`, or nullptr; `order` is sorted by key.
template <class Item, class Key>
const Item* find_sorted(const std::vector<Item>& items, const std::vector<std::uint32_t>& order,
                        std::string_view name, Key key) noexcept {
  const auto at =
      std::lower_bound(order.begin(), order.end(), name,
                       [&](std::uint32_t i, std::string_view n) { return key(items[i]) < n; });
  if (at == order.end() || key(items[*at]) != name) return nullptr;
  return &items[*at];
}

template <class Item, class Key>
const Item* find_twice(const std::vector<Item>& items, const std::vector<std::uint32_t>& order,
                       Key key) {
  const auto at = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return key(items[a]) == key(items[b]); });
  return at == order.end() ? nullptr : &items[*at];
}

constexpr auto kName = [](const GgufTensor& tensor) noexcept { return tensor.name; };
constexpr auto kKey = [](const GgufEntry& entry) noexcept { return entry.key; };

}  // namespace

struct GgufFile::Impl {
  std::optional<MappedFile> mapping;  // none: the caller's bytes
  std::string name;                   // as opened
  std::string shown;                  // in messages
  std::span<const std::uint8_t> bytes;
  ParsedGguf parsed;
  std::vector<std::uint32_t> tensors_by_name, metadata_by_key;

  Status read();
  Status check_cover() const;
};

Status GgufFile::Impl::read() {
  Result<ParsedGguf> header = parse_gguf_header(bytes, shown);
  if (!header.is_ok()) return header.status();
  parsed = std::move(*header);
  tensors_by_name = sorted_by(parsed.tensors, kName);
  metadata_by_key = sorted_by(parsed.metadata, kKey);
  if (const auto* twice = find_twice(parsed.metadata, metadata_by_key, kKey); twice != nullptr) {
    return bad(shown, "metadata key " + quote(twice->key) + " is there twice");
  }
  if (const auto* twice = find_twice(parsed.tensors, tensors_by_name, kName); twice != nullptr) {
    return bad(shown, "tensor " + quote(twice->name) + " is there twice");
  }
  return check_cover();
}

// Tensors may lie in any order, but without overlap, and without holes but their padding.
Status GgufFile::Impl::check_cover() const {
  const auto order = sorted_by(parsed.tensors, [](const GgufTensor& tensor) {
    return std::pair(tensor.data.data(), tensor.data.size());
  });
  const std::uint8_t* const data = parsed.data.data();
  std::uint64_t covered = 0;  // with padding; the file may end before it
  const GgufTensor* last = nullptr;
  for (const std::uint32_t i : order) {
    const GgufTensor& tensor = parsed.tensors[i];
    const auto begin = static_cast<std::uint64_t>(tensor.data.data() - data);
    const std::string after = last == nullptr ? "the header" : quote(last->name);
    if (begin < covered) {
      return bad(shown, "tensor " + quote(tensor.name) + " begins at data byte " +
                            std::to_string(begin) + ", inside " + after + ", which reaches to " +
                            std::to_string(covered));
    }
    if (begin > covered) {
      return bad(shown, "data bytes " + std::to_string(covered) + " to " + std::to_string(begin) +
                            ", between " + after + " and tensor " + quote(tensor.name) +
                            ", are a hole: they belong to no tensor");
    }
    if (tensor.data.empty()) continue;
    covered = align_up(begin + tensor.data.size(), parsed.alignment);
    last = &tensor;
  }
  if (parsed.data.size() <= covered) return {};
  return bad(shown, count(parsed.data.size() - covered, "byte") + " of data after " +
                        (last == nullptr ? "the header" : quote(last->name)) +
                        " belong to no tensor");
}

GgufFile::GgufFile(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

bool GgufFile::has_magic(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // a pipe would wait
  std::array<char, 4> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == "GGUF";
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) try {
  Result<MappedFile> mapping = MappedFile::open(path);
  if (!mapping.is_ok()) return mapping.status();
  auto impl = std::make_shared<Impl>();
  impl->bytes = mapping->bytes();
  impl->mapping = std::move(*mapping);
  impl->name = path.string();
  impl->shown = display_name(path);
  if (const Status status = impl->read(); !status.is_ok()) return status;
  return GgufFile(std::move(impl));
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "%s: no memory for its header (%s)", path.c_str(),
                       e.what());
}

Result<GgufFile> GgufFile::parse(std::span<const std::uint8_t> bytes, std::string name) try {
  auto impl = std::make_shared<Impl>();
  impl->bytes = bytes;
  impl->shown = display_name(name);
  impl->name = std::move(name);
  if (const Status status = impl->read(); !status.is_ok()) return status;
  return GgufFile(std::move(impl));
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "no memory for a GGUF header (%s)", e.what());
}

const std::string& GgufFile::name() const noexcept {
  return impl_->name;
}
std::span<const GgufTensor> GgufFile::tensors() const noexcept {
  return impl_->parsed.tensors;
}
std::span<const GgufEntry> GgufFile::metadata() const noexcept {
  return impl_->parsed.metadata;
}
const GgufTensor* GgufFile::find(std::string_view tensor) const noexcept {
  return find_sorted(impl_->parsed.tensors, impl_->tensors_by_name, tensor, kName);
}
const GgufEntry* GgufFile::find_metadata(std::string_view key) const noexcept {
  return find_sorted(impl_->parsed.metadata, impl_->metadata_by_key, key, kKey);
}
std::uint32_t GgufFile::version() const noexcept {
  return impl_->parsed.version;
}
std::uint32_t GgufFile::alignment() const noexcept {
  return impl_->parsed.alignment;
}
std::uint64_t GgufFile::file_bytes() const noexcept {
  return impl_->bytes.size();
}

void GgufFile::release(const GgufTensor& tensor) const noexcept {
  if (impl_->mapping.has_value()) MappedFile::release(tensor.data);
}

}  // namespace mxgemm::io
