// Instruction sets of the CPU kernels, found at run time and capped by MXGEMM_CPU_ISA.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cpu {

/// Each level includes the ones before it.
enum class Isa : int { baseline = 0, avx2 = 1, avx512vnni = 2 };

std::string_view to_string(Isa isa) noexcept;

/// What this CPU and operating system can run, whatever the environment says.
Isa detected_isa() noexcept;

/// detected_isa(), capped by MXGEMM_CPU_ISA. Errors: invalid_argument (an unknown name).
Result<Isa> usable_isa() noexcept;

/// ok, or why kernels of `isa` (`what` in words) cannot run: the machine, or MXGEMM_CPU_ISA.
Status supports_isa(Isa isa, const char* what) noexcept;

/// Quantizes k elements of one row. Writes ceil(k/2) code and ceil(k/32) scale bytes.
using QuantizeRow = void (*)(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                             NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;

/// The fastest quantizer for an instruction set; all give the same bits.
QuantizeRow quantize_row_for(Isa isa) noexcept;

void quantize_row_baseline(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                           NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;
void quantize_row_avx2(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                       NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept;

/// Reads `count` elements as float32, exactly.
void load_floats(const void* x, DType dtype, std::int64_t first, std::int64_t count,
                 float* out) noexcept;

}  // namespace mxgemm::cpu
