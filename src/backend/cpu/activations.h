// A as the CPU kernels read it, in the plan's workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

/// Rows of A in MXFP4, unpacked. In every 8 elements of `values` the order is 0 2 4 6 1 3 5 7: the
/// order in which the packed weights' nibbles come out.
struct UnpackedRows {
  std::int8_t* values = nullptr;        // [rows, 32 * num_blocks] doubled E2M1 values
  std::int32_t* offsets = nullptr;      // [rows, num_blocks] -12 * (sum of the block)
  float* scales = nullptr;              // [rows, num_blocks] 2^(scale - 127) / 4
  std::uint8_t* scale_bytes = nullptr;  // [rows, num_blocks]
  std::uint8_t* moderate = nullptr;     // [rows] 1: all scale bytes lie in [kModerateMin, Max]
  std::int64_t num_blocks = 0;
};

// Where both scales of a block lie in this range, every product d * 2^e and its factors are normal
// float32 numbers: e is within +-110 and |d| <= 1152.
inline constexpr int kModerateMin = 72, kModerateMax = 182;

/// Packed codes, pads 0, and scales of blocks [first, first + count) of a row of A: quantized, or
/// taken over where A is MXFP4 already.
void packed_blocks(const RunArgs& args, QuantizeRow quantize, std::int64_t row, std::int64_t first,
                   std::int64_t count, std::uint8_t* codes, std::uint8_t* scales) noexcept;

std::size_t unpacked_rows_bytes(std::int64_t rows, std::int64_t k) noexcept;
UnpackedRows unpacked_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept;

/// Quantizes (or takes over) all rows of A, in parallel.
void unpack_activations(const RunArgs& args, const RowTools& tools,
                        const UnpackedRows& out) noexcept;

/// Rows of A as float32, for kernels that leave A as it is (W4A16); zero-filled to whole blocks.
struct FloatRows {
  float* values = nullptr;        // [rows, 32 * num_blocks]
  std::uint8_t* large = nullptr;  // [rows] 1: products may leave float32's range
  std::int64_t num_blocks = 0;
};

std::size_t float_rows_bytes(std::int64_t rows, std::int64_t k) noexcept;
FloatRows float_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept;
void convert_activations(const RunArgs& args, const FloatRows& out) noexcept;

}  // namespace mxgemm::cpu
