// safetensors files and checkpoints: mapped for reading, streamed for writing.
//
// A file is: u64 little-endian header length, that many bytes of JSON, then the tensor data without
// holes. Everything a file claims is checked before any of it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm::io {

/// String metadata of a file, sorted by key.
using Metadata = std::map<std::string, std::string, std::less<>>;

/// One tensor of an open file; `data` points into the mapping.
struct TensorView {
  std::string name;
  std::string dtype;                // as written: "BF16", "U8", "F8_E8M0", "F4", ...
  std::vector<std::int64_t> shape;  // F4 counts elements, U8 bytes
  std::span<const std::uint8_t> data;

  std::int64_t num_elements() const noexcept;
};

/// "[2880, 1440]", for messages.
std::string shape_string(std::span<const std::int64_t> shape);

/// The number of elements of a shape. Zeros are left out of `nonzero`, so that every partial
/// product of a shape fits too.
struct ShapeProduct {
  std::int64_t nonzero = 1;
  bool empty = false;

  std::int64_t elements() const noexcept { return empty ? 0 : nonzero; }
};
/// Errors: bad_data (a negative dimension, more elements than 63 bits count).
Result<ShapeProduct> shape_product(std::span<const std::int64_t> shape);

/// Bits of one element of a dtype as files spell it: 16 for "BF16", 4 for "F4"; 0 if unknown.
int dtype_bits(std::string_view dtype) noexcept;

/// Bytes of a tensor. Errors: unsupported (unknown dtype), bad_data (a negative dimension, a size
/// beyond 63 bits, sub-byte elements that do not fill whole bytes).
Result<std::uint64_t> tensor_bytes(std::string_view dtype, std::span<const std::int64_t> shape);

/// A float tensor of rank >= 1 as a matrix of its last axis: [d0*...*d(r-2), d(r-1)].
/// Errors: unsupported (dtype is not F32, F16 or BF16), bad_data (rank 0).
Result<ConstMatrix> as_float_matrix(const TensorView& tensor);

/// The bytes of a tensor whose elements are bytes or packed nibbles (U8, I8, F8_E8M0, F4).
Result<std::span<const std::uint8_t>> as_bytes(const TensorView& tensor);

class SafetensorsFile {
 public:
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation

  /// Maps and checks a file. Its bytes are read on use: a file that someone truncates while it is
  /// open ends the process with SIGBUS, as with every mapped file.
  /// Errors: io_error; bad_data with file, what is wrong, and where.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  /// The same checks on bytes in memory, which must outlive the result; `name` appears in messages.
  static Result<SafetensorsFile> parse(std::span<const std::uint8_t> bytes, std::string name);

  const std::string& name() const noexcept;              // path, for messages
  std::span<const TensorView> tensors() const noexcept;  // in order of their data
  const TensorView* find(std::string_view tensor) const noexcept;
  const Metadata& metadata() const noexcept;
  std::uint64_t file_bytes() const noexcept;
  std::uint64_t header_bytes() const noexcept;  // of the JSON, with its padding
  /// Tells the system that the pages of a tensor are not needed any more, so that reading a large
  /// checkpoint once does not keep all of it in memory.
  void release(const TensorView& tensor) const noexcept;

  struct Impl;
  explicit SafetensorsFile(std::shared_ptr<const Impl> impl) noexcept;
  /// Keeps the mapping alive for borrowed tensors.
  std::shared_ptr<const void> keep_alive() const noexcept;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A checkpoint: one file, or a folder with `model.safetensors.index.json` or `*.safetensors`.
/// With an index, its shards are the files, and tensors and index must agree exactly.
class Checkpoint {
 public:
  /// Errors: as SafetensorsFile::open; bad_data (no such file in the folder, a tensor in two
  /// files, an index that does not match them).
  static Result<Checkpoint> open(const std::filesystem::path& path);

  std::span<const SafetensorsFile> files() const noexcept;  // sorted by name
  /// File and tensor, or {nullptr, nullptr}.
  std::pair<const SafetensorsFile*, const TensorView*> find(std::string_view tensor) const noexcept;
  bool is_folder() const noexcept;
  bool has_index() const noexcept;

 private:
  struct Location {
    std::string_view name;  // of the TensorView, which files_ keeps alive
    std::uint32_t file, tensor;
  };
  Status locate_tensors(const std::string& name);

  std::vector<SafetensorsFile> files_;
  std::vector<Location> locations_;  // sorted by name
  bool is_folder_ = false;
  bool has_index_ = false;
};

inline constexpr const char* kIndexFileName = "model.safetensors.index.json";

/// Which file of a folder holds a tensor.
struct IndexEntry {
  std::string tensor;
  std::string file;
};
/// Writes folder/model.safetensors.index.json in one step; total_bytes is the tensors' data.
Status write_checkpoint_index(const std::filesystem::path& folder,
                              std::span<const IndexEntry> entries, std::uint64_t total_bytes);

/// What a tensor to write is; its bytes follow later.
struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  /// Only for a dtype of unknown size, where it is needed; otherwise it follows from the shape.
  std::optional<std::uint64_t> num_bytes = std::nullopt;
};

/// Writes a file tensor by tensor. Nothing appears under its name until commit(): the bytes go to
/// a temporary file beside it, which is removed if the writer goes away first.
class SafetensorsWriter {
 public:
  /// Writes the header for all tensors, in the order given. Errors: invalid_argument (a name that
  /// is empty, "__metadata__", a duplicate or not UTF-8; a dtype of unknown size without num_bytes;
  /// a path that is a folder), io_error.
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          std::span<const TensorSpec> tensors,
                                          const Metadata& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  /// Appends bytes of the tensors, which lie one after the other in the order given to create().
  Status write(std::span<const std::uint8_t> bytes);
  /// Checks that every byte was written, flushes, and renames the file into place.
  Status commit();

 private:
  struct Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mxgemm::io
