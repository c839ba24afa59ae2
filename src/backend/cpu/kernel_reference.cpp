// cpu_reference: the oracle. docs/numerics.md, sections 2 and 3, in the order they are written.
//
// Reads any layout and quantizes with the portable definition. Of the fast kernels' code it shares
// the summation tree and the stores, which have tests of their own. Written to be read.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/output.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;
using formats::kSpanBlocks;

/// A in row_major MXFP4: the caller's, or quantized into the workspace.
Mxfp4View quantized_activations(const RunArgs& args) noexcept {
  if (args.a_mxfp4.codes != nullptr) return args.a_mxfp4;
  auto* codes = reinterpret_cast<std::uint8_t*>(args.workspace);
  std::uint8_t* scales = codes + args.a.rows * codes_per_row_bytes(args.a.cols);
  const Mxfp4Buffer out = mxfp4_buffer(codes, scales, args.a.rows, args.a.cols);
  parallel_for(args.threads, args.a.rows, [&](std::int64_t r) noexcept {
    const auto* x = static_cast<const std::uint8_t*>(args.a.data) +
                    r * args.a.row_stride * size_of(args.a.dtype);
    quantize_row_baseline(x, args.a.dtype, args.a.cols, scale_rule_addend(args.activation_rule),
                          args.non_finite, out.codes + r * out.codes_stride,
                          out.scales + r * out.scales_stride);
  });
  return out;
}

/// d(m,n,k) of the first `count` elements of a block, exactly.
float block_dot(const std::uint8_t* a, const std::uint8_t* w, int count) noexcept {
  int doubled_twice = 0;
  for (int i = 0; i < count; ++i)
    doubled_twice += formats::e2m1_doubled(unsigned{a[i / 2]} >> (4 * (i % 2)) & 15u) *
                     formats::e2m1_doubled(unsigned{w[i / 2]} >> (4 * (i % 2)) & 15u);
  return 0.25f * static_cast<float>(doubled_twice);
}

/// acc + d * 2^e, rounded once; e = a_scale + w_scale - 254. NaN if a scale is.
float add_block(float acc, float d, std::uint8_t a_scale, std::uint8_t w_scale) noexcept {
  if (a_scale == formats::kE8m0NaN || w_scale == formats::kE8m0NaN)
    return std::bit_cast<float>(formats::kF32NaN);
  const int e = int{a_scale} + int{w_scale} - 254;
  const int e1 = e >> 1, e2 = e - e1;
  return std::fma(d * formats::exp2_int(e1), formats::exp2_int(e2), acc);
}

float span_sum(const Mxfp4View& a, const WeightsView& w, std::int64_t m, std::int64_t n,
               std::int64_t span) noexcept {
  float acc = 0.0f;
  const std::int64_t end = std::min((span + 1) * kSpanBlocks, scales_per_row(w.k));
  for (std::int64_t b = span * kSpanBlocks; b < end; ++b) {
    std::uint8_t w_codes[16];
    read_block_codes(w, n, b, w_codes);
    const auto count = static_cast<int>(std::min<std::int64_t>(kBlock, w.k - b * kBlock));
    const float d = block_dot(a.codes + m * a.codes_stride + b * 16, w_codes, count);
    acc = add_block(acc, d, a.scales[m * a.scales_stride + b], w.scale(n, b));
  }
  return acc;
}

/// W4A16: the sum of a(m,k) * w(n,k) in double, which holds every product exactly.
float float_sum(const RunArgs& args, std::int64_t m, std::int64_t n) noexcept {
  double total = 0.0;
  for (std::int64_t k = 0; k < args.w.k; ++k) {
    float a;
    load_floats(args.a.data, args.a.dtype, m * args.a.row_stride + k, 1, &a);
    const std::uint8_t scale = args.w.scale(n, k / kBlock);
    const double w =
        double{formats::e2m1_to_float(args.w.code(n, k))} * double{formats::e8m0_to_float(scale)};
    total += double{a} * w;
  }
  return static_cast<float>(total);
}

void compute_column(const RunArgs& args, const Mxfp4View& a, std::int64_t n) noexcept {
  const bool partial = args.partial.sums != nullptr;
  const std::int64_t num_spans = layout::ceil_div(args.w.k, kBlock * kSpanBlocks);
  const std::int64_t begin = partial ? args.partial.span_begin : 0;
  const std::int64_t end = partial ? args.partial.span_end : num_spans;
  SpanTree<1> tree;
  for (std::int64_t m = 0; m < args.m(); ++m) {
    tree.clear(1);
    for (std::int64_t span = begin; span < end; ++span) {
      *tree.top() = span_sum(a, args.w, m, n, span);
      tree.push({args.partial.first_span + span, 1});
    }
    if (partial) {
      for (int node = 0; node < tree.depth(); ++node)
        args.partial.sums[(node * args.m() + m) * args.w.n + n] = *tree.node(node);
    } else {
      store_row(tree.fold(), 1, args.c, m, n, args.epilogue);
    }
  }
}

Status run(const RunArgs& args) noexcept {
  if (args.activation == Activation::none) {
    parallel_for(args.threads, args.w.n, [&](std::int64_t n) noexcept {
      for (std::int64_t m = 0; m < args.m(); ++m) {
        const float sum = float_sum(args, m, n);
        store_row(&sum, 1, args.c, m, n, args.epilogue);
      }
    });
    return {};
  }
  const Mxfp4View a = quantized_activations(args);
  parallel_for(args.threads, args.w.n,
               [&](std::int64_t n) noexcept { compute_column(args, a, n); });
  return {};
}

std::size_t workspace_bytes(const Problem& problem, const Config&) noexcept {
  if (problem.activation == Activation::none) return 0;
  const Shape& s = problem.shape;
  return static_cast<std::size_t>(s.m * (codes_per_row_bytes(s.k) + scales_per_row(s.k)));
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 1, 0.25, 1);
}

constexpr Layout kLayouts[] = {Layout::row_major, Layout::cpu_panel16, Layout::aiter_16x16,
                               Layout::gguf_mxfp4};
constexpr Config kConfigs[] = {{.block_m = 1, .block_n = 1}};

}  // namespace

constexpr KernelDesc kReference = {
    .name = "cpu_reference",
    .device = DeviceKind::cpu,
    .needs = "",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::device,
    .none = Reproducible::batch,
    .error_class = ErrorClass::block_exact,
    .supports = supports_everything,
    .estimate_us = estimate,
    .workspace_bytes = workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
