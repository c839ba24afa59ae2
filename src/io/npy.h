// NumPy .npy files, versions 1 to 3: C order, little-endian numbers; bf16 travels as u2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mxgemm/status.h"

namespace mxgemm::io {

enum class NpyType { f2, f4, f8, u1, u2, i1, i4, i8 };

/// Bytes of one element, and the type as files spell it: "<f4".
std::int64_t size_of(NpyType type) noexcept;
const char* to_string(NpyType type) noexcept;

struct NpyArray {
  NpyType type = NpyType::f4;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data;  // C order
};

/// Errors: io_error; bad_data (not .npy, Fortran order, big-endian, unknown type, size mismatch),
/// out_of_memory.
Result<NpyArray> read_npy(const std::filesystem::path& path);
/// The same on bytes in memory, for tests and fuzzers.
Result<NpyArray> parse_npy(std::span<const std::uint8_t> bytes, const std::string& name);
/// Writes version 1 to a temporary file and renames it into place.
/// Errors: invalid_argument (data is not what type and shape need), io_error.
Status write_npy(const std::filesystem::path& path, NpyType type,
                 std::span<const std::int64_t> shape, std::span<const std::uint8_t> data);

}  // namespace mxgemm::io
