// Packed codes to the doubled values that the kernels multiply, with AVX2; the same bytes as
// unpack_blocks_baseline.
#include <immintrin.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx2")

void unpack_blocks_avx2(const std::uint8_t* codes, std::int64_t count, std::int8_t* values,
                        std::int32_t* offsets) noexcept {
  const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m128i mask = _mm_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi8(1);
  for (std::int64_t b = 0; b < count; ++b) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + b * 16));
    const __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(bytes, mask));
    const __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
    // 4 even elements, 4 odd ones, and so on: the order of UnpackedRows::values.
    const __m256i block =
        _mm256_set_m128i(_mm_unpackhi_epi32(even, odd), _mm_unpacklo_epi32(even, odd));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + b * formats::kBlock), block);

    const __m256i pairs = _mm256_maddubs_epi16(ones, block);
    const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    offsets[b] = -12 * _mm_cvtsi128_si32(sum);
  }
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
