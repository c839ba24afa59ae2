// Running kernels in tests: every buffer poisoned around what it may touch.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "testing.h"

namespace mxgemm::testing {

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& v) {
  std::vector<std::uint32_t> bits(v.size());
  std::transform(v.begin(), v.end(), bits.begin(),
                 [](float x) { return std::bit_cast<std::uint32_t>(x); });
  return bits;
}

/// The weights in a layout, from rows with poisoned slack (0xFF codes, NaN scales).
inline Weights make_weights(const HostMxfp4& w, Layout layout) {
  const std::int64_t kb = codes_per_row_bytes(w.cols), sb = scales_per_row(w.cols);
  const std::int64_t code_stride = kb + 3, scale_stride = sb + 5;
  struct Bytes {
    std::vector<std::uint8_t> codes, scales;
  };
  auto bytes = std::make_shared<Bytes>();
  bytes->codes.assign(static_cast<std::size_t>(w.rows * code_stride), 0xFF);
  bytes->scales.assign(static_cast<std::size_t>(w.rows * scale_stride), 0xFF);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    std::copy_n(w.codes.begin() + r * kb, kb, bytes->codes.begin() + r * code_stride);
    std::copy_n(w.scales.begin() + r * sb, sb, bytes->scales.begin() + r * scale_stride);
    if (w.cols % 2 != 0) bytes->codes[static_cast<std::size_t>(r * code_stride + kb - 1)] |= 0xF0;
  }
  Weights::Options options;
  options.keep_alive = bytes;
  const Weights row_major = *Weights::from_row_major(
      {bytes->codes.data(), bytes->scales.data(), w.rows, w.cols, code_stride, scale_stride},
      options);
  if (layout == Layout::row_major) return row_major;
  Result<Weights> packed = row_major.to_layout(layout);
  EXPECT_OK(packed);
  if (layout != Layout::aiter_16x16) return *packed;
  // aiter's pads are the caller's: poison every byte that is no element.
  auto poisoned = std::make_shared<Bytes>();
  poisoned->codes.assign(packed->codes().size(), 0xFF);
  poisoned->scales.assign(packed->scales().size(), 0xFF);
  const std::int64_t row_bytes = layout::padded_k(layout, w.cols) / 2;
  const std::int64_t cols = layout::aiter_scale_cols(w.cols);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t j = 0; j < kb; ++j) {
      const auto at = static_cast<std::size_t>(layout::aiter_code_offset(r, j, row_bytes));
      const bool half = w.cols % 2 != 0 && j == kb - 1;
      poisoned->codes[at] = static_cast<std::uint8_t>(packed->codes()[at] | (half ? 0xF0 : 0));
    }
    for (std::int64_t b = 0; b < sb; ++b) {
      const auto at = static_cast<std::size_t>(layout::aiter_scale_offset(r, b, cols));
      poisoned->scales[at] = packed->scales()[at];
    }
  }
  options.keep_alive = poisoned;
  return *Weights::from_aiter(w.rows, w.cols, poisoned->codes, poisoned->scales, options);
}

/// A plan's workspace, full of 0xFF, at an odd address.
class PoisonedWorkspace {
 public:
  explicit PoisonedWorkspace(std::size_t bytes)
      : bytes_(bytes + kGuard + 1, std::byte{0xFF}), size_(bytes) {}
  std::span<std::byte> span() { return {bytes_.data() + 1, size_}; }
  bool guard_intact() const {
    return std::all_of(bytes_.end() - kGuard, bytes_.end(),
                       [](std::byte b) { return b == std::byte{0xFF}; });
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::vector<std::byte> bytes_;
  std::size_t size_;
};

/// What a kernel gets as a workspace: of exactly the size asked for, aligned, full of 0xFF, with a
/// guard behind it.
class KernelWorkspace {
 public:
  explicit KernelWorkspace(std::size_t bytes)
      : bytes_(bytes), all_(bytes + 2 * kWorkspaceAlignment, kPoison) {}
  std::byte* data() {
    return all_.data() + (kWorkspaceAlignment -
                          reinterpret_cast<std::uintptr_t>(all_.data()) % kWorkspaceAlignment);
  }
  void expect_guard() {
    for (const std::byte* p = data() + bytes_; p != all_.data() + all_.size(); ++p)
      ASSERT_EQ(*p, kPoison);
  }

 private:
  static constexpr std::byte kPoison{0xFF};
  std::size_t bytes_;
  std::vector<std::byte> all_;
};

/// C as float32 in rows with slack that must stay as it is.
class GuardedOutput {
 public:
  GuardedOutput(std::int64_t m, std::int64_t n)
      : m_(m), n_(n), values_(static_cast<std::size_t>(m * (n + kSlack)), poison()) {}
  MatrixView<float> view() { return {values_.data(), m_, n_, n_ + kSlack}; }
  std::vector<float> take() const {
    std::vector<float> c;
    for (std::int64_t r = 0; r < m_; ++r) {
      const auto row = values_.begin() + r * (n_ + kSlack);
      c.insert(c.end(), row, row + n_);
      for (std::int64_t i = 0; i < kSlack; ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(row[n_ + i]), std::bit_cast<std::uint32_t>(poison()))
            << "slack of row " << r << " was written";
    }
    return c;
  }

 private:
  static constexpr std::int64_t kSlack = 3;
  static float poison() { return std::bit_cast<float>(0x7FA5A5A5u); }
  std::int64_t m_, n_;
  std::vector<float> values_;
};

template <class A>
std::vector<float> run_plan(const Weights& weights, const A& a, const PlanOptions& options,
                            const Epilogue& epilogue = {}) {
  const Result<Plan> plan = Plan::create(Device::cpu(), weights, a.rows, options);
  EXPECT_OK(plan);
  if (!plan.is_ok()) return {};
  if (!options.kernel.empty()) {
    EXPECT_EQ(plan->kernel(a.rows), options.kernel);
  }
  PoisonedWorkspace workspace(plan->workspace_bytes(a.rows));
  GuardedOutput c(a.rows, weights.n());
  EXPECT_OK(plan->run(a, c.view(), workspace.span(), epilogue));
  EXPECT_TRUE(workspace.guard_intact());
  return c.take();
}

/// The first m rows of a in rows with poisoned slack.
struct StridedMxfp4 {
  std::vector<std::uint8_t> codes, scales;
  Mxfp4View view;

  StridedMxfp4(const HostMxfp4& a, std::int64_t m) {
    const std::int64_t kb = codes_per_row_bytes(a.cols), sb = scales_per_row(a.cols);
    codes.assign(static_cast<std::size_t>(m * (kb + 2)) + 1, 0xFF);
    scales.assign(static_cast<std::size_t>(m * (sb + 1)) + 1, 0xFF);
    for (std::int64_t r = 0; r < m; ++r) {
      std::copy_n(a.codes.begin() + r * kb, kb, codes.begin() + r * (kb + 2));
      std::copy_n(a.scales.begin() + r * sb, sb, scales.begin() + r * (sb + 1));
      if (a.cols % 2 != 0) codes[static_cast<std::size_t>(r * (kb + 2) + kb - 1)] |= 0xF0;
    }
    view = {codes.data(), scales.data(), m, a.cols, kb + 2, sb + 1};
  }
};

inline std::vector<float> run_on(const KernelDesc& kernel, const Weights& weights,
                                 const HostMxfp4& a, std::int64_t m,
                                 ThreadPool* threads = nullptr) {
  const StridedMxfp4 rows(a, m);
  return run_plan(
      weights, rows.view,
      {.reproducible = Reproducible::device, .kernel = kernel.name, .threads = threads});
}

/// cpu_reference on row_major weights.
inline std::vector<float> reference(const HostMxfp4& a, const HostMxfp4& w) {
  return run_on(kernel_named("cpu_reference"), make_weights(w, Layout::row_major), a, a.rows);
}

/// Columns [first, last) of a matrix; first is a multiple of 32.
inline HostMxfp4 columns(const HostMxfp4& m, std::int64_t first, std::int64_t last) {
  HostMxfp4 part(m.rows, last - first);
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = first; c < last; ++c) part.set_code(r, c - first, m.code(r, c));
    for (std::int64_t b = 0; b < scales_per_row(part.cols); ++b)
      part.scale(r, b) = m.scale(r, first / 32 + b);
  }
  return part;
}

/// Appends the nodes of spans [begin, end): from the whole weights, or (ranks) from a plan that has
/// only that part of K.
inline void add_part(const KernelDesc& kernel, Layout layout, const HostMxfp4& a,
                     const HostMxfp4& w, std::int64_t begin, std::int64_t end, bool ranks,
                     std::vector<std::vector<float>>& sums, std::vector<PartialNode>& all) {
  const std::int64_t k0 = begin * kSpan, k1 = std::min(end * kSpan, w.cols);
  const HostMxfp4 part_a = ranks ? columns(a, k0, k1) : a, part_w = ranks ? columns(w, k0, k1) : w;
  const PartialRange range =
      ranks ? PartialRange{.first_span = begin} : PartialRange{.k_begin = k0, .k_end = k1};
  const Result<Plan> plan =
      Plan::create(Device::cpu(), make_weights(part_w, layout), a.rows,
                   {.reproducible = Reproducible::device, .kernel = kernel.name});
  ASSERT_OK(plan);
  const Result<std::int64_t> count = plan->num_partial_nodes(range);
  ASSERT_OK(count);
  sums.emplace_back(static_cast<std::size_t>(*count * a.rows * w.rows), NAN);
  std::vector<PartialNode> nodes(static_cast<std::size_t>(*count));
  PoisonedWorkspace workspace(plan->workspace_bytes());
  const StridedMxfp4 rows(part_a, a.rows);
  ASSERT_OK(plan->run_partial(rows.view, range, sums.back(), nodes, workspace.span()));
  all.insert(all.end(), nodes.begin(), nodes.end());
}

/// S(m,n) and what its bounds need, summed in double (range and precision far beyond float32's).
struct ExactSum {
  double sum = 0, magnitude = 0;  // magnitude: E, or P for products of elements
  bool is_nan = false;
  bool partial_sums_fit = true;  // no sum of any subset can overflow float32
};

inline ExactSum exact_sum(const HostMxfp4& a, std::int64_t m, const HostMxfp4& w, std::int64_t n) {
  ExactSum exact;
  for (std::int64_t b = 0; b < scales_per_row(a.cols); ++b) {
    const int a_scale = a.scale(m, b), w_scale = w.scale(n, b);
    exact.is_nan |= a_scale == 255 || w_scale == 255;
    double d = 0;
    for (std::int64_t k = b * 32; k < std::min(a.cols, b * 32 + 32); ++k)
      d += double{formats::e2m1_to_float(a.code(m, k))} * formats::e2m1_to_float(w.code(n, k));
    const double term = std::ldexp(d, a_scale + w_scale - 254);
    exact.sum += term;
    exact.magnitude += std::fabs(term);
  }
  exact.partial_sums_fit = exact.magnitude < 0x1.fffffep127;
  return exact;
}

/// docs/numerics.md, section 3: |S - exact| of a block-exact kernel. The last factor covers the
/// double sum's own rounding.
inline double block_exact_bound(const ExactSum& exact, std::int64_t k) {
  const auto n = static_cast<double>(scales_per_row(k));
  return (n * 0x1p-24 * exact.magnitude + n * 0x1p-149) * (1 + 0x1p-20);
}

}  // namespace mxgemm::testing
