#include "backend/cpu/activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;

constexpr std::int64_t kBatchBlocks = 32;  // blocks quantized at a time, into 544 bytes of stack

UnpackedRows carve_unpacked(Arena& arena, std::int64_t rows, std::int64_t k) noexcept {
  UnpackedRows r;
  r.num_blocks = scales_per_row(k);
  r.values = arena.take<std::int8_t>(rows * r.num_blocks * kBlock);
  r.offsets = arena.take<std::int32_t>(rows * r.num_blocks);
  r.scales = arena.take<float>(rows * r.num_blocks);
  r.scale_bytes = arena.take<std::uint8_t>(rows * r.num_blocks);
  r.moderate = arena.take<std::uint8_t>(rows);
  return r;
}

FloatRows carve_floats(Arena& arena, std::int64_t rows, std::int64_t k) noexcept {
  FloatRows r;
  r.num_blocks = scales_per_row(k);
  r.values = arena.take<float>(rows * r.num_blocks * kBlock);
  r.large = arena.take<std::uint8_t>(rows);
  return r;
}

/// Blocks [first, first + count) of one row, from packed codes whose pads are 0.
void unpack_blocks(UnpackBlocks unpack, const std::uint8_t* codes, const std::uint8_t* scales,
                   std::int64_t row, std::int64_t first, std::int64_t count,
                   const UnpackedRows& out, bool& moderate) noexcept {
  const std::int64_t at = row * out.num_blocks + first;
  unpack(codes, count, out.values + at * kBlock, out.offsets + at);
  for (std::int64_t b = 0; b < count; ++b) {
    // A block of zeros, common behind a ReLU, has scale byte 0: any finite scale gives the same +0,
    // and one in the moderate range does not send its whole row to the general path.
    const std::uint8_t scale =
        scale_counts(codes + b * 16, scales[b]) ? scales[b] : formats::kE8m0One;
    out.scales[at + b] = 0.25f * formats::e8m0_to_float(scale);
    out.scale_bytes[at + b] = scale;
    moderate = moderate && scale >= kModerateMin && scale <= kModerateMax;
  }
}

void unpack_row(const RunArgs& args, const RowTools& tools, std::int64_t row,
                const UnpackedRows& out) noexcept {
  std::uint8_t codes[kBatchBlocks * 16];
  std::uint8_t scales[kBatchBlocks];
  const std::uint32_t addend = scale_rule_addend(args.activation_rule);
  const bool fuse =
      tools.unpack_bf16 != nullptr && args.a_mxfp4.codes == nullptr && args.a.dtype == DType::bf16;
  bool moderate = true;
  for (std::int64_t first = 0; first < out.num_blocks; first += kBatchBlocks) {
    const std::int64_t count = std::min(kBatchBlocks, out.num_blocks - first);
    const std::int64_t elements = std::min(count * kBlock, args.w.k - first * kBlock);
    if (fuse) {
      const auto* x = static_cast<const std::uint8_t*>(args.a.data) +
                      (row * args.a.row_stride + first * kBlock) * size_of(args.a.dtype);
      const std::int64_t at = row * out.num_blocks + first;
      if (tools.unpack_bf16(x, elements, addend,
                            {out.values + at * kBlock, out.offsets + at, out.scales + at,
                             out.scale_bytes + at, &moderate}))
        continue;
    }
    packed_blocks(args, tools.quantize, row, first, count, codes, scales);
    unpack_blocks(tools.unpack, codes, scales, row, first, count, out, moderate);
  }
  out.moderate[row] = moderate ? 1 : 0;
}

void convert_row(const RunArgs& args, std::int64_t row, const FloatRows& out) noexcept {
  const std::int64_t k = args.w.k, padded = out.num_blocks * kBlock;
  float* values = out.values + row * padded;
  const auto* x = static_cast<const std::uint8_t*>(args.a.data) +
                  row * args.a.row_stride * size_of(args.a.dtype);
  load_floats(x, args.a.dtype, 0, k, values);
  std::fill(values + k, values + padded, 0.0f);
  bool large = false;
  for (std::int64_t i = 0; i < k; ++i) large |= !(std::fabs(values[i]) < 0x1p100f);
  out.large[row] = large ? 1 : 0;
}

/// Rows a task takes: enough work to be worth handing out.
std::int64_t rows_per_task(std::int64_t k) noexcept {
  return std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(k, 1));
}

template <class Body>
void for_each_row(const RunArgs& args, const Body& body) noexcept {
  const std::int64_t rows = args.m(), step = rows_per_task(args.w.k);
  parallel_for(args.threads, layout::ceil_div(rows, step), [&](std::int64_t task) noexcept {
    for (std::int64_t r = task * step; r < std::min(rows, (task + 1) * step); ++r) body(r);
  });
}

}  // namespace

void packed_blocks(const RunArgs& args, QuantizeRow quantize, std::int64_t row, std::int64_t first,
                   std::int64_t count, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  const std::int64_t elements = std::min(count * kBlock, args.w.k - first * kBlock);
  const auto bytes = static_cast<std::size_t>((elements + 1) / 2);
  if (args.a_mxfp4.codes != nullptr) {
    const Mxfp4View& a = args.a_mxfp4;
    std::memcpy(codes, a.codes + row * a.codes_stride + first * 16, bytes);
    std::memcpy(scales, a.scales + row * a.scales_stride + first, static_cast<std::size_t>(count));
    if (elements % 2 != 0) codes[bytes - 1] &= 0x0F;  // callers' pads are not trusted
  } else {
    const auto* x = static_cast<const std::uint8_t*>(args.a.data) +
                    (row * args.a.row_stride + first * kBlock) * size_of(args.a.dtype);
    quantize(x, args.a.dtype, elements, scale_rule_addend(args.activation_rule), args.non_finite,
             codes, scales);
  }
  std::memset(codes + bytes, 0, static_cast<std::size_t>(count) * 16 - bytes);
}

void unpack_blocks_baseline(const std::uint8_t* codes, std::int64_t count, std::int8_t* values,
                            std::int32_t* offsets) noexcept {
  for (std::int64_t b = 0; b < count; ++b, codes += 16, values += kBlock) {
    int sum = 0;
    for (int d = 0; d < 4; ++d)
      for (int i = 0; i < 4; ++i) {
        const int even = formats::e2m1_doubled(codes[4 * d + i] & 15u);
        const int odd = formats::e2m1_doubled(codes[4 * d + i] >> 4);
        values[8 * d + i] = static_cast<std::int8_t>(even);
        values[8 * d + 4 + i] = static_cast<std::int8_t>(odd);
        sum += even + odd;
      }
    offsets[b] = -12 * sum;
  }
}

std::size_t unpacked_rows_bytes(std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(nullptr);
  carve_unpacked(arena, rows, k);
  return arena.used();
}

UnpackedRows unpacked_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(workspace);
  return carve_unpacked(arena, rows, k);
}

void unpack_activations(const RunArgs& args, const RowTools& tools,
                        const UnpackedRows& out) noexcept {
  for_each_row(args, [&](std::int64_t r) noexcept { unpack_row(args, tools, r, out); });
}

std::size_t float_rows_bytes(std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(nullptr);
  carve_floats(arena, rows, k);
  return arena.used();
}

FloatRows float_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(workspace);
  return carve_floats(arena, rows, k);
}

void convert_activations(const RunArgs& args, const FloatRows& out) noexcept {
  for_each_row(args, [&](std::int64_t r) noexcept { convert_row(args, r, out); });
}

}  // namespace mxgemm::cpu
