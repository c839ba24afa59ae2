// Instruction sets of the CPU kernels, found at run time and capped by MXGEMM_CPU_ISA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cpu {

/// Each level includes the ones before it, but for avxvnni: ask has_avx_vnni().
enum class Isa : int { baseline = 0, avx2 = 1, avxvnni = 2, avx512vnni = 3, amx = 4 };

std::string_view to_string(Isa isa) noexcept;

/// What this CPU and operating system can run, whatever the environment says.
Isa detected_isa() noexcept;

/// Whether the CPU has VPDPBUSD in its VEX form. AVX-512 VNNI does not imply it.
bool has_avx_vnni() noexcept;

/// Whether streams of weights want prefetches further ahead than the next kilobytes: AMD's
/// prefetchers follow a stream less far than Intel's, where such hints cost 5 % when the weights
/// are in a cache and gain as much when they are not (docs/performance.md).
bool prefers_far_prefetch() noexcept;

/// Which CPU it is, as a word for tuning tables: "amd-25-17" (vendor, family and model as CPUID and
/// /proc/cpuinfo number them), or the name of another architecture.
std::string model_name();

/// detected_isa(), capped by MXGEMM_CPU_ISA. Errors: invalid_argument (an unknown name).
Result<Isa> usable_isa() noexcept;

/// Tells the processor that this thread waits in a loop.
void relax() noexcept;

/// Asks Linux for the AMX tile registers, once for the process: all its threads may then use them,
/// and signal frames grow by 8 KiB. Only x86 builds have it.
bool request_tiles() noexcept;

/// ok, or why kernels of `isa` (`what` in words) cannot run: the machine, or MXGEMM_CPU_ISA.
Status supports_isa(Isa isa, const char* what) noexcept;

/// Quantizes k elements of one row. Writes ceil(k/2) code and ceil(k/32) scale bytes.
using QuantizeRow = void (*)(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                             NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;

/// Unpacks `count` blocks of 16 code bytes each to doubled E2M1 values, in every 8 elements in the
/// order 0 2 4 6 1 3 5 7; offsets[b] = -12 * (sum of block b).
using UnpackBlocks = void (*)(const std::uint8_t* codes, std::int64_t count, std::int8_t* values,
                              std::int32_t* offsets) noexcept;

/// Where up to 32 blocks of UnpackedRows go.
struct UnpackedBlocks {
  std::int8_t* values;
  std::int32_t* offsets;
  float* scales;
  std::uint8_t* scale_bytes;
  bool* moderate;  // cleared where a scale is not
};

/// Quantizes and unpacks up to 1024 elements of bf16 at x in one pass. False, with nothing of use
/// written, where a block needs the general path.
using UnpackBf16 = bool (*)(const std::uint8_t* x, std::int64_t count, std::uint32_t rule_addend,
                            const UnpackedBlocks& out) noexcept;

/// What turns a row of A into what the kernels multiply.
struct RowTools {
  QuantizeRow quantize;
  UnpackBlocks unpack;
  UnpackBf16 unpack_bf16 = nullptr;  // where there is one: the same bytes, faster
};

/// The fastest quantizer for an instruction set; all give the same bits.
QuantizeRow quantize_row_for(Isa isa) noexcept;

void quantize_row_baseline(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                           NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;
void quantize_row_avx2(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                       NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;

void quantize_row_avx512(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                         NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;

void unpack_blocks_baseline(const std::uint8_t* codes, std::int64_t count, std::int8_t* values,
                            std::int32_t* offsets) noexcept;
void unpack_blocks_avx2(const std::uint8_t* codes, std::int64_t count, std::int8_t* values,
                        std::int32_t* offsets) noexcept;
/// Needs AVX-512 VBMI besides Isa::avx512vnni.
bool unpack_bf16_avx512(const std::uint8_t* x, std::int64_t count, std::uint32_t rule_addend,
                        const UnpackedBlocks& out) noexcept;
/// The fastest tools of Isa::avx512vnni on this CPU.
RowTools avx512_row_tools() noexcept;

/// Reads `count` elements as float32, exactly.
void load_floats(const void* x, DType dtype, std::int64_t first, std::int64_t count,
                 float* out) noexcept;

}  // namespace mxgemm::cpu
