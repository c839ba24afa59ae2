// What becomes of a tile's sums: scaled, added up in float32 (or int32, while scales allow), and
// written to C. The work is cut into rows, so that the AMX kernel can put it between tile products.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/block_scale_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/output_avx512.h"
#include "formats/mxfp4.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

/// Sums of 32 rows (two row tiles) x 32 columns (two panels), int32 or float32.
struct alignas(64) TileQuad {
  std::int32_t rows[32][32];
};

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

/// Scale bytes of up to 32 rows of A, as the flush needs them.
struct RowScales {
  alignas(64) std::int32_t exponents[32];  // row_exponent of each
  int smallest, largest;
};

static inline int smallest_byte(__m128i x) noexcept {
  const __m128i low = _mm_min_epu8(x, _mm_srli_epi16(x, 8));
  return _mm_extract_epi16(_mm_minpos_epu16(_mm_and_si128(low, _mm_set1_epi16(0xFF))), 0);
}
static inline int largest_byte(__m128i x) noexcept {
  return 255 - smallest_byte(_mm_xor_si128(x, _mm_set1_epi8(-1)));
}

static inline void set_row_scales(__m128i rows0, __m128i rows1, RowScales& out) noexcept {
  const __m512i bias = _mm512_set1_epi32(kScaleBias);
  _mm512_store_si512(out.exponents,
                     _mm512_slli_epi32(_mm512_sub_epi32(_mm512_cvtepu8_epi32(rows0), bias), 23));
  _mm512_store_si512(out.exponents + 16,
                     _mm512_slli_epi32(_mm512_sub_epi32(_mm512_cvtepu8_epi32(rows1), bias), 23));
  out.smallest = smallest_byte(_mm_min_epu8(rows0, rows1));
  out.largest = largest_byte(_mm_max_epu8(rows0, rows1));
}

/// Writes 32 columns of C, row by row.
class RowWriter {
 public:
  explicit RowWriter(const RunArgs& args) noexcept
      : c_(args.c), epilogue_(args.epilogue), n_(args.w.n) {}

  /// Plain bf16 from normal sums needs no arithmetic but the rounding.
  bool plain_bf16() const noexcept {
    return epilogue_.alpha == 1.0f && epilogue_.bias.empty() && c_.dtype == DType::bf16;
  }

  /// Starts at row `row`, columns [col, col + 32), as far as there are columns.
  void start(std::int64_t row, std::int64_t col) noexcept {
    const auto size = static_cast<std::int64_t>(size_of(c_.dtype));
    out_ = static_cast<std::uint8_t*>(c_.data) + (row * c_.row_stride + col) * size;
    stride_ = c_.row_stride * size;
    mask_ = n_ - col < 32 ? static_cast<__mmask32>((1u << (n_ - col)) - 1) : ~__mmask32{0};
    for (int p = 0; p < 2; ++p) bias_[p] = bias_avx512(epilogue_, col + 16 * p, half_mask(p));
  }
  std::uint8_t* row(int r) const noexcept { return out_ + r * stride_; }
  std::int64_t stride() const noexcept { return stride_; }
  __mmask32 mask() const noexcept { return mask_; }

  /// The general way: any type, alpha and bias, any sums.
  void write(int r, __m512 sum0, __m512 sum1) const noexcept {
    std::uint8_t* out = row(r);
    const __m512i y0 = finish_avx512(sum0, epilogue_.alpha, bias_[0]);
    const __m512i y1 = finish_avx512(sum1, epilogue_.alpha, bias_[1]);
    if (c_.dtype == DType::f32) {
      _mm512_mask_storeu_epi32(out, half_mask(0), y0);
      if (half_mask(1) != 0) _mm512_mask_storeu_epi32(out + 64, half_mask(1), y1);
      return;
    }
    const __m512i bits =
        _mm512_inserti64x4(_mm512_castsi256_si512(to_bf16_avx512(y0)), to_bf16_avx512(y1), 1);
    _mm512_mask_storeu_epi16(out, mask_, bits);
  }

 private:
  __mmask16 half_mask(int p) const noexcept { return static_cast<__mmask16>(mask_ >> (16 * p)); }

  const Matrix& c_;
  const Epilogue& epilogue_;
  const std::int64_t n_;
  std::uint8_t* out_ = nullptr;
  std::int64_t stride_ = 0;
  __mmask32 mask_ = 0;
  __m512 bias_[2];
};

/// A quad of int32 dot products on its way into sums, or from there to C.
class Flush {
 public:
  explicit Flush(const RunArgs& args) noexcept : writer_(args), plain_(writer_.plain_bf16()) {}

  /// What is to be done with `dots`: add to `sums` (unless `first`), in int32 if `whole`; then keep
  /// there, or (`last`) write to rows [row, row + num_rows) of C from column `col` on. Outliers are
  /// where float32 sums start from.
  struct Job {
    const TileQuad* dots;
    TileQuad* sums;
    const TileQuad* outliers;  // null: there are none
    bool whole, first, last;
    std::int64_t row, col;
    int num_rows;
  };

  /// Scales of the rows of A, which must stay until the job is done, and of 2 x 16 rows of W. The
  /// job before must be finished.
  void begin(const Job& job, const RowScales& a, __m128i w0, __m128i w1) noexcept {
    job_ = job;
    done_ = 0;
    if (job.whole && !job.last) return;  // no scales yet
    if (job.last) writer_.start(job.row, job.col);
    a_ = &a;
    w_bytes_[0] = _mm512_cvtepu8_epi32(w0);
    w_bytes_[1] = _mm512_cvtepu8_epi32(w1);
    normal_ = scales_are_normal(a.smallest, a.largest, smallest_byte(_mm_min_epu8(w0, w1)),
                                largest_byte(_mm_max_epu8(w0, w1)));
  }

  /// Does up to `count` rows more.
  void work(int count) noexcept {
    const int begin = done_, left = job_.num_rows - begin;
    if (left == 0) return;
    const int end = begin + (count < left ? count : left);
    done_ = end;
    if (job_.whole && !job_.last)
      add_integers(begin, end);
    else if (job_.whole && normal_ && plain_ && job_.outliers == nullptr)
      job_.first ? write_plain<true>(begin, end) : write_plain<false>(begin, end);
    else
      normal_ ? add_scaled<true>(begin, end) : add_scaled<false>(begin, end);
  }
  void finish() noexcept { work(32); }

 private:
  void add_integers(int begin, int end) const noexcept {
    const std::int32_t* dots = job_.dots->rows[0];
    std::int32_t* sums = job_.sums->rows[0];
    for (std::int64_t i = 32 * begin; i < 32 * end; i += 16)
      _mm512_store_si512(
          sums + i, _mm512_add_epi32(_mm512_load_si512(dots + i), _mm512_load_si512(sums + i)));
  }

  /// The usual end: one rounding to float32 and one to bf16.
  template <bool kFirst>
  void write_plain(int begin, int end) const noexcept {
    const std::int32_t* dots = job_.dots->rows[0];
    const std::int32_t* sums = job_.sums->rows[0];
    const std::int32_t* exponents = a_->exponents;
    const __m512i w0 = _mm512_slli_epi32(w_bytes_[0], 23), w1 = _mm512_slli_epi32(w_bytes_[1], 23);
    const __mmask32 mask = writer_.mask();
    const std::int64_t stride = writer_.stride();
    std::uint8_t* out = writer_.row(begin);
    for (std::int64_t r = begin; r < end; ++r, out += stride) {
      __m512i d0 = _mm512_load_si512(dots + 32 * r), d1 = _mm512_load_si512(dots + 32 * r + 16);
      if (!kFirst) {
        d0 = _mm512_add_epi32(d0, _mm512_load_si512(sums + 32 * r));
        d1 = _mm512_add_epi32(d1, _mm512_load_si512(sums + 32 * r + 16));
      }
      const __m512i a = _mm512_set1_epi32(exponents[r]);
      const __m512 y0 =
          _mm512_mul_ps(_mm512_cvtepi32_ps(d0), _mm512_castsi512_ps(_mm512_add_epi32(w0, a)));
      const __m512 y1 =
          _mm512_mul_ps(_mm512_cvtepi32_ps(d1), _mm512_castsi512_ps(_mm512_add_epi32(w1, a)));
      const __m512bh pair = _mm512_cvtne2ps_pbh(y1, y0);
      __m512i bits;
      static_assert(sizeof bits == sizeof pair);
      __builtin_memcpy(&bits, &pair, sizeof bits);
      _mm512_mask_storeu_epi16(out, mask, bits);
    }
  }

  // Kept out of the loop that the usual ways are part of.
  template <bool kNormal>
  [[gnu::noinline]] void add_scaled(int begin, int end) const noexcept {
    const Job job = job_;
    const std::int32_t* exponents = a_->exponents;
    const __m512i w_bytes[2] = {w_bytes_[0], w_bytes_[1]};
    for (int r = begin; r < end; ++r) {
      __m512 sum[2];
      for (int p = 0; p < 2; ++p) {
        __m512i dots = _mm512_load_si512(job.dots->rows[0] + 32 * r + 16 * p);
        std::int32_t* kept = job.sums->rows[0] + 32 * r + 16 * p;
        __m512 before = _mm512_setzero_ps();
        if (!job.first && job.whole) dots = _mm512_add_epi32(dots, _mm512_load_si512(kept));
        if (!job.first && !job.whole)
          before = _mm512_load_ps(kept);
        else if (job.outliers != nullptr)
          before = _mm512_load_ps(job.outliers->rows[r] + 16 * p);
        const __m512 d = _mm512_cvtepi32_ps(dots);
        sum[p] = kNormal ? add_scaled_normal(before, d, exponents[r], w_bytes[p])
                         : add_scaled_general(before, d, row_byte(exponents[r]), w_bytes[p]);
        if (!job.last) _mm512_store_ps(kept, sum[p]);
      }
      if (job.last) writer_.write(r, sum[0], sum[1]);
    }
  }

  RowWriter writer_;
  const bool plain_;
  Job job_ = {};
  int done_ = 0;
  bool normal_ = false;
  const RowScales* a_ = nullptr;
  __m512i w_bytes_[2];
};

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
