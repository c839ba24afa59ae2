// Which blocks of a row share a base (see ShiftedRows): 16 scale bytes in, 16 bases out.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// Largest and smallest of the scales that count, each byte over its group of blocks; 0 and 255
/// where none counts.
struct ScaleRange {
  __m128i largest, smallest;
};

static inline ScaleRange counted_range(__m128i scales, __mmask16 counted) noexcept {
  return {_mm_maskz_mov_epi8(counted, scales),
          _mm_mask_mov_epi8(_mm_set1_epi8(-1), counted, scales)};
}

static inline ScaleRange widen(const ScaleRange& r, __m128i partners) noexcept {
  return {_mm_max_epu8(r.largest, _mm_shuffle_epi8(r.largest, partners)),
          _mm_min_epu8(r.smallest, _mm_shuffle_epi8(r.smallest, partners))};
}
/// Groups of 1 to groups of 2 blocks, and so on; partners by byte.
static inline ScaleRange widen_to_pairs(const ScaleRange& r) noexcept {
  return widen(r, _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}
static inline ScaleRange widen_to_quads(const ScaleRange& r) noexcept {
  return widen(r, _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
}
static inline ScaleRange widen_to_chunk(const ScaleRange& r) noexcept {
  return widen(widen(r, _mm_setr_epi8(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)),
               _mm_setr_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
}

/// Whether one base holds each group.
static inline bool one_base(const ScaleRange& r) noexcept {
  const __m128i spread = _mm_subs_epu8(r.largest, r.smallest);
  return (_mm_cmpgt_epu8_mask(spread, _mm_set1_epi8(kMaxShift)) |
          _mm_cmpeq_epi8_mask(r.largest, _mm_set1_epi8(-1))) == 0;
}

/// The bases of groups that one base holds.
static inline __m128i bases_of(const ScaleRange& r) noexcept {
  const __mmask16 none = _mm_cmplt_epu8_mask(r.largest, r.smallest);
  return _mm_mask_mov_epi8(_mm_subs_epu8(r.largest, _mm_set1_epi8(kMaxShift)), none,
                           _mm_set1_epi8(formats::kE8m0One));
}

struct FoldedChunk {
  __m128i bases;  // by block
  Grain grain;
};

/// A chunk on its own, at the coarsest grain that fits.
static inline FoldedChunk fold_chunk(__m128i scales, __mmask16 counted) noexcept {
  const ScaleRange blocks = counted_range(scales, counted), pairs = widen_to_pairs(blocks);
  const ScaleRange quads = widen_to_quads(pairs), chunk = widen_to_chunk(quads);
  if (one_base(chunk)) return {bases_of(chunk), kGrainChunk};
  if (one_base(quads)) return {bases_of(quads), kGrainQuad};
  if (one_base(pairs)) return {bases_of(pairs), kGrainPair};
  return {_mm_mask_mov_epi8(_mm_set1_epi8(formats::kE8m0One), counted, scales), kGrainBlock};
}

/// Shifts of blocks against their bases. Blocks of zeros may get any.
static inline __m128i shifts_of(__m128i scales, __m128i bases) noexcept {
  return _mm_min_epu8(_mm_subs_epu8(scales, bases), _mm_set1_epi8(kMaxShift));
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
