#include "mxgemm/quantize.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "api/check.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "quantize/quantize_block.h"

namespace mxgemm {
namespace {

using formats::kBlock;

/// A task: some whole rows, or a piece of one long row cut at block boundaries.
struct Pieces {
  static constexpr std::int64_t kElements = 1 << 15;  // far more work than handing out a task
  std::int64_t cols_step, pieces_per_row, rows_step, count;

  Pieces(std::int64_t rows, std::int64_t cols) noexcept
      : cols_step(std::min<std::int64_t>(layout::round_up(cols, kBlock), kElements)),
        pieces_per_row(layout::ceil_div(cols, cols_step)),
        rows_step(std::max<std::int64_t>(1, kElements / cols_step)),
        count(layout::ceil_div(rows, rows_step) * pieces_per_row) {}
};

/// body(row, first column, columns) for every row, or piece of a row.
template <class Body>
void for_each_piece(ThreadPool* threads, std::int64_t rows, std::int64_t cols,
                    const Body& body) noexcept {
  if (rows == 0 || cols == 0) return;
  const Pieces pieces(rows, cols);
  cpu::parallel_for(threads, pieces.count, [&](std::int64_t task) noexcept {
    const std::int64_t row = task / pieces.pieces_per_row * pieces.rows_step;
    const std::int64_t col = task % pieces.pieces_per_row * pieces.cols_step;
    for (std::int64_t r = row; r < std::min(rows, row + pieces.rows_step); ++r)
      body(r, col, std::min(pieces.cols_step, cols - col));
  });
}

void store_float(float value, DType dtype, std::uint8_t* out) noexcept {
  if (dtype == DType::f32) {
    std::memcpy(out, &value, sizeof value);
    return;
  }
  const std::uint16_t bits =
      dtype == DType::bf16 ? formats::float_to_bf16(value) : formats::float_to_f16(value);
  std::memcpy(out, &bits, sizeof bits);
}

template <DType kDType>
void dequantize_block(const std::uint8_t* codes, std::uint8_t scale_byte, int count,
                      std::uint8_t* out) noexcept {
  const float scale = formats::e8m0_to_float(scale_byte);
  for (int i = 0; i < count; ++i) {
    const unsigned code = unsigned{codes[i / 2]} >> (4 * (i % 2)) & 15u;
    const float value =
        scale_byte == formats::kE8m0NaN ? scale : scale * formats::e2m1_to_float(code);
    store_float(value, kDType, out + i * size_of(kDType));
  }
}

Status check_same_size(std::int64_t in_rows, std::int64_t in_cols, std::int64_t out_rows,
                       std::int64_t out_cols) noexcept {
  if (in_rows == out_rows && in_cols == out_cols) return {};
  return Status::error(StatusCode::invalid_argument,
                       "out is [%" PRId64 ", %" PRId64 "], must be in's [%" PRId64 ", %" PRId64 "]",
                       out_rows, out_cols, in_rows, in_cols);
}

Status check_disjoint(const StridedBytes& floats, const Mxfp4View& packed) noexcept {
  if (!overlaps(floats, packed)) return {};
  return Status::error(StatusCode::invalid_argument, "in and out overlap, must be apart");
}

}  // namespace

Status quantize(const ConstMatrix& in, const Mxfp4Buffer& out,
                const QuantizeOptions& options) noexcept {
  if (Status s = check_matrix("in", in); !s.is_ok()) return s;
  if (Status s = check_mxfp4("out", out); !s.is_ok()) return s;
  if (Status s = check_rule(options.rule, options.non_finite); !s.is_ok()) return s;
  if (Status s = check_same_size(in.rows, in.cols, out.rows, out.cols); !s.is_ok()) return s;
  if (Status s = check_disjoint(bytes_of(in), out); !s.is_ok()) return s;
  if (overlaps({out.codes, out.rows, codes_per_row_bytes(out.cols), out.codes_stride},
               {out.scales, out.rows, scales_per_row(out.cols), out.scales_stride}))
    return Status::error(StatusCode::invalid_argument,
                         "out.codes and out.scales overlap, must be apart");
  const Result<cpu::Isa> isa = cpu::usable_isa();
  if (!isa.is_ok()) return isa.status();

  const cpu::QuantizeRow quantize_row = cpu::quantize_row_for(*isa);
  const std::uint32_t addend = scale_rule_addend(options.rule);
  for_each_piece(options.threads, in.rows, in.cols,
                 [&](std::int64_t r, std::int64_t col, std::int64_t count) noexcept {
                   const auto* x = static_cast<const std::uint8_t*>(in.data) +
                                   (r * in.row_stride + col) * size_of(in.dtype);
                   quantize_row(x, in.dtype, count, addend, options.non_finite,
                                out.codes + r * out.codes_stride + col / 2,
                                out.scales + r * out.scales_stride + col / kBlock);
                 });
  return {};
}

Status quantize_activations(const Device& device, const ConstMatrix& a, const Mxfp4Buffer& out,
                            const QuantizeOptions& options, Stream) noexcept {
  if (device.kind != DeviceKind::cpu)
    return Status::error(StatusCode::unsupported, "device is %s, this build has the cpu only",
                         device.kind == DeviceKind::cuda ? "cuda" : "hip");
  return quantize(a, out, options);
}

Status dequantize(const Mxfp4View& in, const Matrix& out, ThreadPool* threads) noexcept {
  if (Status s = check_mxfp4("in", in); !s.is_ok()) return s;
  if (Status s = check_matrix("out", out); !s.is_ok()) return s;
  if (Status s = check_same_size(in.rows, in.cols, out.rows, out.cols); !s.is_ok()) return s;
  if (Status s = check_disjoint(bytes_of(out), in); !s.is_ok()) return s;
  const auto dequantize_one = out.dtype == DType::bf16  ? dequantize_block<DType::bf16>
                              : out.dtype == DType::f16 ? dequantize_block<DType::f16>
                                                        : dequantize_block<DType::f32>;
  for_each_piece(threads, in.rows, in.cols,
                 [&](std::int64_t r, std::int64_t col, std::int64_t count) noexcept {
                   for (std::int64_t i = 0; i < count; i += kBlock) {
                     const std::int64_t c = col + i;
                     dequantize_one(in.codes + r * in.codes_stride + c / 2,
                                    in.scales[r * in.scales_stride + c / kBlock],
                                    static_cast<int>(std::min<std::int64_t>(kBlock, count - i)),
                                    static_cast<std::uint8_t*>(out.data) +
                                        (r * out.row_stride + c) * size_of(out.dtype));
                   }
                 });
  return {};
}

}  // namespace mxgemm
