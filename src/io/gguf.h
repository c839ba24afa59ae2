// GGUF files, versions 2 and 3, little-endian: mapped for reading, streamed for writing.
//
// A file is: "GGUF", u32 version, u64 number of tensors, u64 number of metadata entries, the
// entries, the tensors' infos, zeros up to a multiple of the alignment, then the tensors' data,
// each tensor padded to that multiple. Everything a file claims is checked before it is used.
// Names, keys and values stay in the mapping: an open file takes a few dozen bytes for each.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/weights.h"

namespace mxgemm::io {

/// Types of metadata values, as numbered in files.
enum class GgufValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
/// "u8", ..., "string", "array".
std::string_view to_string(GgufValueType type) noexcept;

/// A metadata entry in the form it has in a file. An array's value begins with u32 element type
/// and u64 number of elements, a string's with u64 length.
struct GgufEntry {
  std::string_view key;
  GgufValueType type = GgufValueType::u8;
  std::span<const std::uint8_t> value;
};

/// The bytes of values to write.
std::string gguf_u32(std::uint32_t value);
std::string gguf_string(std::string_view text);
/// The text of a string value, or nothing where the entry has another type.
std::string_view gguf_text(const GgufEntry& entry) noexcept;

/// A tensor type of ggml: blocks of elements along the first, fastest dimension.
struct GgmlType {
  std::uint32_t id = 0;     // as numbered in files
  std::string_view name;    // "F32", "Q4_K", "MXFP4", ...
  std::uint32_t block = 1;  // elements
  std::uint32_t bytes = 0;  // of a block
};
inline constexpr std::uint32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlBF16 = 30, kGgmlMXFP4 = 39;
/// nullptr: no such type.
const GgmlType* find_ggml_type(std::uint32_t id) noexcept;

inline constexpr std::uint32_t kGgufMaxRank = 4;
inline constexpr std::uint32_t kGgufDefaultAlignment = 32;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

/// One tensor of an open file; `name` and `data` point into the mapping. dims are in the order of
/// this project, the last one fastest: [N, K], reverse to the file's.
struct GgufTensor {
  std::string_view name;
  const GgmlType* type = nullptr;
  std::uint32_t rank = 0;
  std::array<std::int64_t, kGgufMaxRank> dims{};
  std::span<const std::uint8_t> data;

  std::span<const std::int64_t> shape() const noexcept { return {dims.data(), rank}; }
};

/// Bytes of a tensor. Errors: bad_data (a negative dimension, more than 4, a row that does not
/// fill the type's blocks, a size beyond 63 bits).
Result<std::uint64_t> ggml_bytes(const GgmlType& type, std::span<const std::int64_t> shape);

class GgufFile {
 public:
  /// Does the file begin with "GGUF"? False also for what cannot be read.
  static bool has_magic(const std::filesystem::path& path);
  /// Maps and checks a file. Its bytes are read on use, as with SafetensorsFile.
  /// Errors: io_error; bad_data with file, tensor or key, and what is wrong; unsupported
  /// (another version, big-endian, a tensor type that this version does not know).
  static Result<GgufFile> open(const std::filesystem::path& path);
  /// The same checks on bytes in memory, which must outlive the result; `name` appears in messages.
  static Result<GgufFile> parse(std::span<const std::uint8_t> bytes, std::string name);

  const std::string& name() const noexcept;              // path, for messages
  std::span<const GgufTensor> tensors() const noexcept;  // in the file's order
  std::span<const GgufEntry> metadata() const noexcept;  // in the file's order
  const GgufTensor* find(std::string_view tensor) const noexcept;
  const GgufEntry* find_metadata(std::string_view key) const noexcept;
  std::uint32_t version() const noexcept;
  std::uint32_t alignment() const noexcept;
  std::uint64_t file_bytes() const noexcept;

  /// An MXFP4 tensor [K], [N,K] or [E,N,K] as weights in Layout::gguf_mxfp4 that borrow the
  /// mapping, whatever its alignment: blocks are read bytewise. The weights keep the mapping alive,
  /// so they may outlive this object. Scales of 255 are NaN, as everywhere. Errors: unsupported
  /// (another type, 4 dimensions, no element).
  Result<Weights> weights(const GgufTensor& tensor) const;
  /// An F32, F16 or BF16 tensor of rank >= 1 as a matrix of its last axis.
  /// Errors: unsupported (another type, rank 0).
  Result<ConstMatrix> float_matrix(const GgufTensor& tensor) const;
  /// As SafetensorsFile::release().
  void release(const GgufTensor& tensor) const noexcept;

  struct Impl;
  explicit GgufFile(std::shared_ptr<const Impl> impl) noexcept;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// What a tensor to write is; its bytes follow later. dims as in GgufTensor.
struct GgufTensorSpec {
  std::string_view name;
  std::uint32_t type = kGgmlF32;
  std::span<const std::int64_t> shape;
};

/// Writes a file of version 3, tensor by tensor. Nothing appears under its name until commit().
class GgufWriter {
 public:
  /// Writes entries and infos in the order given; the alignment is that of general.alignment, or
  /// 32. Errors: invalid_argument (a name or key that is empty, given twice, too long or not UTF-8;
  /// a value whose bytes are not of its type; an unknown tensor type; a shape the type cannot have;
  /// a path that is a folder), io_error.
  static Result<GgufWriter> create(const std::filesystem::path& path,
                                   std::span<const GgufTensorSpec> tensors,
                                   std::span<const GgufEntry> metadata);
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;
  ~GgufWriter();

  /// Appends bytes of the tensors, one after the other in the order given to create(); the padding
  /// between them is the writer's.
  Status write(std::span<const std::uint8_t> bytes);
  /// Checks that every byte was written, flushes, and renames the file into place.
  Status commit();

 private:
  struct Impl;
  explicit GgufWriter(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mxgemm::io
