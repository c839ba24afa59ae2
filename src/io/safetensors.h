// safetensors files and checkpoints: mapped for reading, streamed for writing.
//
// A file is: u64 little-endian header length, that many bytes of JSON, then the tensor data without
// holes. Everything a file claims is checked before any of it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
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

/// A float tensor of rank >= 1 as a matrix of its last axis: [d0*...*d(r-2), d(r-1)].
/// Errors: unsupported (dtype is not F32, F16 or BF16), bad_data (rank 0).
Result<ConstMatrix> as_float_matrix(const TensorView& tensor);

/// The bytes of a tensor whose elements are bytes or packed nibbles (U8, I8, F8_E8M0, F4).
Result<std::span<const std::uint8_t>> as_bytes(const TensorView& tensor);

class SafetensorsFile {
 public:
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation

  /// Maps and checks a file. Errors: io_error; bad_data with file, what is wrong, and where.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  /// The same checks on bytes in memory, for tests and fuzzers; `name` appears in messages.
  static Result<SafetensorsFile> parse(std::span<const std::uint8_t> bytes, std::string name);

  const std::string& name() const noexcept;  // path, for messages
  std::span<const TensorView> tensors() const noexcept;  // in order of their data
  const TensorView* find(std::string_view tensor) const noexcept;
  const Metadata& metadata() const noexcept;
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
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& path);

  std::span<const SafetensorsFile> files() const noexcept;
  /// File and tensor, or {nullptr, nullptr}.
  std::pair<const SafetensorsFile*, const TensorView*> find(std::string_view tensor) const noexcept;
  bool is_folder() const noexcept;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>> index_;
  bool is_folder_ = false;
};

/// What a tensor to write is; its bytes follow later.
struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// Writes a file tensor by tensor. Nothing appears under its name until commit(): the bytes go to
/// a temporary file beside it, which is removed if the writer goes away first.
class SafetensorsWriter {
 public:
  /// Writes the header for all tensors. Errors: invalid_argument (a duplicate name, a dtype of
  /// unknown size), io_error.
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
