// Conformance: every kernel of the registry, on every layout it reads, on the probe inputs of
// docs/numerics.md section 5, bit for bit against cpu_reference, which is itself held against sums
// in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gemm_testing.h"

namespace mxgemm {
namespace {

using namespace testing;

constexpr std::int64_t kKs[] = {1,   31,  32,  33,  45,  64,  96,   100,  160,  192,  256, 320,
                                360, 512, 544, 720, 768, 784, 1088, 1440, 1664, 2880, 2881};
const std::vector<int> kEdgeScales = {0, 1, 126, 127, 253, 254, 255};
const std::vector<int> kUsualScales = {110, 118, 120, 121, 122, 123, 124, 127, 130};

std::vector<std::int64_t> probe_rows() {
  std::vector<std::int64_t> rows;
  for (std::int64_t m = 0; m <= 33; ++m) rows.push_back(m);
  for (const std::int64_t m : {63, 64, 65}) rows.push_back(m);
  return rows;
}

// Within the block-exact bound of the sum in double, and NaN where that is.
void expect_right(const HostMxfp4& a, const HostMxfp4& w, const std::vector<float>& c) {
  for (std::int64_t m = 0; m < a.rows; ++m)
    for (std::int64_t n = 0; n < w.rows; ++n) {
      const ExactSum exact = exact_sum(a, m, w, n);
      const float got = c[static_cast<std::size_t>(m * w.rows + n)];
      if (exact.is_nan) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got), formats::kF32NaN);
      } else if (exact.partial_sums_fit) {
        ASSERT_LE(std::fabs(double{got} - exact.sum), block_exact_bound(exact, a.cols))
            << m << " " << n << " k " << a.cols;
      }
    }
}

struct Case {
  const KernelDesc* kernel;
  Layout layout;
};

std::vector<Case> device_mode_cases() {
  std::vector<Case> cases;
  for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4))
    if (kernel->mxfp4 == Reproducible::device)
      for (const Layout layout : kernel->layouts) cases.push_back({kernel, layout});
  return cases;
}

class Conformance : public ::testing::TestWithParam<Case> {
 protected:
  // Every M of `rows` against the first rows of the reference's C for the largest M.
  void check(const HostMxfp4& a, const HostMxfp4& w, const std::vector<std::int64_t>& rows) {
    const auto& [kernel, layout] = GetParam();
    if (layout == Layout::gguf_mxfp4 && w.cols % 32 != 0) return;  // not representable
    const Weights weights = make_weights(w, layout);
    const std::vector<float> want = reference(a, w);
    for (const std::int64_t m : rows) {
      if (m > a.rows) continue;
      const std::vector<float> got = run_on(*kernel, weights, a, m);
      ASSERT_EQ(bits_of(got),
                bits_of({want.begin(), want.begin() + static_cast<std::ptrdiff_t>(m * w.rows)}))
          << kernel->name << " m " << m << " n " << w.rows << " k " << w.cols;
    }
  }
};

TEST_P(Conformance, AllRowCountsOnAllK) {
  for (const std::int64_t k : kKs)
    for (const std::int64_t n : {1, 15, 16, 17, 48}) {
      const auto seed = static_cast<unsigned>(k * 64 + n);
      check(random_mxfp4(65, k, seed, kUsualScales), random_mxfp4(n, k, seed + 1, kUsualScales),
            k % 3 == 0 ? probe_rows() : std::vector<std::int64_t>{1, 2, 3, 4, 5, 7, 8, 9, 33, 65});
    }
}

TEST_P(Conformance, WideAndTensorParallelShapes) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{272, 320},
                             {2880, 512},
                             {2880, 360},
                             {1440, 2880},
                             {720, 2880},
                             {360, 2880},
                             {48, 2881}}) {
    const auto seed = static_cast<unsigned>(k + n);
    check(random_mxfp4(5, k, seed, kUsualScales), random_mxfp4(n, k, seed + 1, kUsualScales),
          {1, 4, 5});
  }
}

// Scale bytes at both ends on both sides: NaN, subnormals, overflow, exact two-factor products.
TEST_P(Conformance, EdgeScales) {
  for (const std::int64_t k : kKs)
    for (const auto& [a_scales, w_scales] :
         {std::pair{kEdgeScales, kEdgeScales},
          std::pair{std::vector<int>{254}, std::vector<int>{0}},
          std::pair{std::vector<int>{0}, std::vector<int>{254}},
          std::pair{std::vector<int>{0, 1}, std::vector<int>{0, 1}},
          std::pair{std::vector<int>{253, 254}, std::vector<int>{253, 254}},
          std::pair{std::vector<int>{71, 72, 73, 181, 182, 183},
                    std::vector<int>{71, 72, 182, 183}},
          std::pair{std::vector<int>{0, 1, 126, 127}, kUsualScales},
          std::pair{kUsualScales, std::vector<int>{0, 126, 127, 253, 254}}}) {
      const auto seed = static_cast<unsigned>(k);
      check(random_mxfp4(9, k, seed, a_scales), random_mxfp4(17, k, seed + 1, w_scales),
            {1, 2, 3, 8, 9});
    }
}

// 2^127 * 2^-127 must be 1, not infinity; 2^-127 * 2^-127 underflows to a zero of d's sign.
TEST_P(Conformance, ExtremePairsByHand) {
  const auto& [kernel, layout] = GetParam();
  HostMxfp4 a(1, 32), w(1, 32);
  a.set_code(0, 3, 15);  // -6
  w.set_code(0, 3, 7);   // 6
  for (const auto& [a_scale, w_scale, want] :
       {std::tuple{254, 0, -36.0f}, std::tuple{0, 254, -36.0f}, std::tuple{127, 127, -36.0f},
        std::tuple{0, 0, -0.0f}, std::tuple{254, 254, -INFINITY}}) {
    a.scale(0, 0) = static_cast<std::uint8_t>(a_scale);
    w.scale(0, 0) = static_cast<std::uint8_t>(w_scale);
    const std::vector<float> got = run_on(*kernel, make_weights(w, layout), a, 1);
    EXPECT_EQ(bits_of(got), bits_of({want})) << a_scale << " " << w_scale;
  }
}

// Every scale byte different along one axis, so that a shuffled scale cannot pass unseen.
TEST_P(Conformance, DistinctScalesAlongEachAxis) {
  for (const std::int64_t k : {1088, 2880})
    for (int axis = 0; axis < 2; ++axis) {
      HostMxfp4 a = random_mxfp4(9, k, 5, {127}), w = random_mxfp4(48, k, 6, {127});
      for (HostMxfp4* m : {&a, &w})
        for (std::int64_t r = 0; r < m->rows; ++r)
          for (std::int64_t b = 0; b < scales_per_row(k); ++b)
            m->scale(r, b) = static_cast<std::uint8_t>(90 + (axis == 0 ? b % 90 : r));
      check(a, w, {1, 9});
    }
}

// Blocks of zeros, of either sign, under scales of their own on both sides; the other blocks have
// scales that kernels have a fast path for, or not.
TEST_P(Conformance, BlocksOfZeros) {
  for (const std::int64_t k : {33, 320, 784, 1088})
    for (const std::vector<int>& w_scales : {kEdgeScales, kUsualScales})
      for (const std::vector<int>& zero_scales :
           {std::vector<int>{0}, {254}, {0, 126, 254, 255}, {0, 1, 71, 183, 202, 253, 254}}) {
        HostMxfp4 a = random_mxfp4(9, k, 21, kUsualScales), w = random_mxfp4(33, k, 22, w_scales);
        Rng rng(static_cast<unsigned>(k));
        for (HostMxfp4* m : {&a, &w})
          for (std::int64_t r = 0; r < m->rows; ++r)
            for (std::int64_t b = 0; b < scales_per_row(k); ++b) {
              if (rng() % 2 == 0) continue;
              m->scale(r, b) = static_cast<std::uint8_t>(zero_scales[rng() % zero_scales.size()]);
              for (std::int64_t c = b * 32; c < std::min(k, b * 32 + 32); ++c)
                m->set_code(r, c, rng() % 2 == 0 ? 0u : 8u);
            }
        check(a, w, {1, 2, 3, 8, 9});
      }
}

// One element of A and one of W at a time: a misplaced element gives 0 instead of its product.
TEST_P(Conformance, OneHot) {
  const auto& [kernel, layout] = GetParam();
  for (const std::int64_t k : {33, 160, 320, 784}) {
    if (layout == Layout::gguf_mxfp4 && k % 32 != 0) continue;
    // Row n of W is hot at element (n * 29) % k; row m of A is hot where row m of W is.
    constexpr std::int64_t kN = 48;
    HostMxfp4 a(kN, k), w(kN, k);
    std::vector<float> want(kN * kN, 0.0f);
    const auto hot = [&](std::int64_t n) { return (n * 29) % k; };
    for (std::int64_t n = 0; n < kN; ++n) {
      w.set_code(n, hot(n), 2);  // 1.0
      a.set_code(n, hot(n), 5);  // 3.0
      for (std::int64_t b = 0; b < scales_per_row(k); ++b)
        w.scale(n, b) = static_cast<std::uint8_t>(100 + (n + b) % 50);
    }
    for (std::int64_t m = 0; m < kN; ++m)
      for (std::int64_t n = 0; n < kN; ++n)
        if (hot(m) == hot(n))
          want[static_cast<std::size_t>(m * kN + n)] =
              std::ldexp(3.0f, w.scale(n, hot(n) / 32) - 127);
    EXPECT_EQ(bits_of(run_on(*kernel, make_weights(w, layout), a, kN)), bits_of(want));
  }
}

TEST_P(Conformance, RowsOfDistinctPowersOfTwo) {
  const auto& [kernel, layout] = GetParam();
  constexpr std::int64_t kM = 17, kN = 33, kK = 192;
  HostMxfp4 a(kM, kK), w(kN, kK);
  std::vector<float> want(kM * kN);
  for (std::int64_t m = 0; m < kM; ++m)
    for (std::int64_t k = 0; k < kK; ++k) a.set_code(m, k, 2);
  for (std::int64_t n = 0; n < kN; ++n)
    for (std::int64_t k = 0; k < kK; ++k) w.set_code(n, k, 2);
  for (std::int64_t b = 0; b < kK / 32; ++b) {
    for (std::int64_t m = 0; m < kM; ++m) a.scale(m, b) = static_cast<std::uint8_t>(127 + m);
    for (std::int64_t n = 0; n < kN; ++n) w.scale(n, b) = static_cast<std::uint8_t>(127 - n);
  }
  for (std::int64_t m = 0; m < kM; ++m)
    for (std::int64_t n = 0; n < kN; ++n)
      want[static_cast<std::size_t>(m * kN + n)] =
          std::ldexp(static_cast<float>(kK), static_cast<int>(m - n));
  EXPECT_EQ(bits_of(run_on(*kernel, make_weights(w, layout), a, kM)), bits_of(want));
}

TEST_P(Conformance, FusedEqualsSeparate) {
  const auto& [kernel, layout] = GetParam();
  for (const std::int64_t k : {1, 45, 100, 784, 2880})
    for (const ScaleRule rule :
         {ScaleRule::even, ScaleRule::floor, ScaleRule::rceil, ScaleRule::ceil})
      for (const NonFinite policy : {NonFinite::propagate, NonFinite::saturate}) {
        if (layout == Layout::gguf_mxfp4 && k % 32 != 0) continue;
        const std::int64_t m = 9, n = 17;
        auto x = random_bf16(static_cast<std::size_t>(m * k), static_cast<unsigned>(k));
        x[static_cast<std::size_t>(k / 2)] = 0x7F80;  // Inf in row 0
        x[static_cast<std::size_t>(2 * k)] = 0xFFC1;  // NaN in row 2
        const HostMxfp4 w = random_mxfp4(n, k, 8, kUsualScales);
        const Weights weights = make_weights(w, layout);
        HostMxfp4 a(m, k);
        ASSERT_OK(quantize_activations(Device::cpu(), bf16_view(x, m, k), a.buffer(),
                                       {.rule = rule, .non_finite = policy}));
        PlanOptions options{.activation_rule = rule,
                            .non_finite = policy,
                            .reproducible = Reproducible::device,
                            .kernel = kernel->name};
        const std::vector<float> fused = run_plan(weights, bf16_view(x, m, k), options);
        EXPECT_EQ(bits_of(fused), bits_of(run_on(*kernel, weights, a, m)));
        EXPECT_EQ(bits_of(fused), bits_of(reference(a, w)));
        if (policy == NonFinite::saturate) {
          for (const float y : fused) EXPECT_FALSE(std::isnan(y));
        } else {
          EXPECT_TRUE(std::isnan(fused[0]) && std::isnan(fused[static_cast<std::size_t>(2 * n)]));
          EXPECT_FALSE(std::isnan(fused[static_cast<std::size_t>(n)]));
        }
      }
}

TEST_P(Conformance, AnyFloatTypeOfA) {
  const auto& [kernel, layout] = GetParam();
  constexpr std::int64_t kM = 5, kN = 17, kK = 96;
  Rng rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> x32(kM * kK);
  std::vector<std::uint16_t> x16(x32.size());
  for (std::size_t i = 0; i < x32.size(); ++i) {
    x16[i] = formats::float_to_f16(normal(rng));
    x32[i] = formats::f16_to_float(x16[i]);
  }
  const HostMxfp4 w = random_mxfp4(kN, kK, 8, kUsualScales);
  const Weights weights = make_weights(w, layout);
  const PlanOptions options{.reproducible = Reproducible::device, .kernel = kernel->name};
  const auto from32 = run_plan(weights, MatrixView<const float>{x32.data(), kM, kK, kK}, options);
  const auto from16 =
      run_plan(weights, MatrixView<const f16>{reinterpret_cast<const f16*>(x16.data()), kM, kK, kK},
               options);
  EXPECT_EQ(bits_of(from32), bits_of(from16));
}

TEST_P(Conformance, ThreadCountsGiveTheSameBits) {
  const auto& [kernel, layout] = GetParam();
  for (const auto& [m, n, k] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 272, 544},
                                {33, 17, 320},
                                {65, 48, 96},
                                {3, 1, 2880}}) {
    const HostMxfp4 a = random_mxfp4(m, k, 1, kUsualScales),
                    w = random_mxfp4(n, k, 2, kUsualScales);
    const Weights weights = make_weights(w, layout);
    const std::vector<float> want = reference(a, w);
    for (int threads = 1; threads <= 8; ++threads) {
      auto pool = ThreadPool::create(threads);
      ASSERT_OK(pool);
      for (int repeat = 0; repeat < 3; ++repeat)
        ASSERT_EQ(bits_of(run_on(*kernel, weights, a, m, pool->get())), bits_of(want))
            << threads << " threads";
    }
  }
}

// Any cut of K at span boundaries, any number of parts, also as ranks with weights of their own.
TEST_P(Conformance, PartsOfKCombineToTheSameBits) {
  const auto& [kernel, layout] = GetParam();
  constexpr std::int64_t kM = 3, kN = 17;
  for (const std::int64_t k : {256, 512, 784, 1664, 2880, 4096, 5120}) {
    if (layout == Layout::gguf_mxfp4 && k % 32 != 0) continue;
    const HostMxfp4 a = random_mxfp4(kM, k, 11, kUsualScales);
    const HostMxfp4 w = random_mxfp4(kN, k, 12, kUsualScales);
    const std::vector<float> want = reference(a, w);
    const std::int64_t spans = (k + 255) / 256;
    Rng rng(static_cast<unsigned>(k));
    for (int repeat = 0; repeat < 12; ++repeat) {
      std::vector<std::int64_t> cuts{0};  // in spans
      while (cuts.back() < spans)
        cuts.push_back(
            std::min<std::int64_t>(spans, cuts.back() + 1 + static_cast<std::int64_t>(rng() % 7)));
      const bool ranks = repeat % 2 == 1;
      std::vector<PartialNode> all;
      std::vector<std::vector<float>> sums;
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
        add_part(*kernel, layout, a, w, cuts[i], cuts[i + 1], ranks, sums, all);
      std::vector<float> c(kM * kN);
      ASSERT_OK(combine_partial_nodes(all, MatrixView<float>{c.data(), kM, kN, kN}));
      ASSERT_EQ(bits_of(c), bits_of(want)) << "k " << k << " parts " << cuts.size() - 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Conformance, ::testing::ValuesIn(device_mode_cases()),
                         [](const auto& param) {
                           return std::string(param.param.kernel->name) + "_" +
                                  std::string(to_string(param.param.layout));
                         });

// Kernels that add in an order of their own: right to the bound, the same bits on any thread count.
class Bounded : public ::testing::TestWithParam<const KernelDesc*> {
 protected:
  void check(const HostMxfp4& a, const HostMxfp4& w) {
    for (const Layout layout : GetParam()->layouts) {
      const StridedMxfp4 rows(a, a.rows);
      const Weights weights = make_weights(w, layout);
      PlanOptions options{.kernel = GetParam()->name};
      const std::vector<float> c = run_plan(weights, rows.view, options);
      expect_right(a, w, c);
      for (const int threads : {2, 5, 8}) {
        auto pool = ThreadPool::create(threads);
        ASSERT_OK(pool);
        options.threads = pool->get();
        ASSERT_EQ(bits_of(run_plan(weights, rows.view, options)), bits_of(c)) << threads;
      }
    }
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bounded);

TEST_P(Bounded, ProbesMeetTheBound) {
  for (const std::int64_t k : kKs)
    for (const auto& [a_scales, w_scales] :
         {std::pair{kUsualScales, kUsualScales}, std::pair{kEdgeScales, kEdgeScales},
          std::pair{std::vector<int>{120, 121, 123}, std::vector<int>{118, 120, 121}},
          std::pair{std::vector<int>{0, 1, 2}, std::vector<int>{254}},
          std::pair{std::vector<int>{120, 160}, std::vector<int>{121}}})
      for (const std::int64_t m : {1, 3, 4, 16, 33})
        check(random_mxfp4(m, k, static_cast<unsigned>(k), a_scales),
              random_mxfp4(k % 2 == 0 ? 17 : 49, k, static_cast<unsigned>(m), w_scales));
  for (const auto& [m, n, k] :
       {std::tuple<int, int, int>{300, 48, 96}, {65, 272, 2880}, {5, 2880, 360}})
    check(random_mxfp4(m, k, 1, kUsualScales), random_mxfp4(n, k, 2, kUsualScales));
}

std::vector<const KernelDesc*> bounded_kernels() {
  std::vector<const KernelDesc*> kernels;
  for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4))
    if (kernel->mxfp4 != Reproducible::device) kernels.push_back(kernel);
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Bounded, ::testing::ValuesIn(bounded_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(Reference, EqualsSumsInDoubleToItsBound) {
  for (const std::int64_t k : kKs)
    for (const auto& scales :
         {kUsualScales, kEdgeScales, std::vector<int>{0, 1, 2, 40, 126, 200}}) {
      const auto seed = static_cast<unsigned>(k);
      const HostMxfp4 a = random_mxfp4(7, k, seed, scales),
                      w = random_mxfp4(9, k, seed + 1, scales);
      expect_right(a, w, reference(a, w));
    }
}

// The ordered sum itself, on spans whose addition order shows in the last bit.
TEST(Reference, AddsSpansAsABinaryCounter) {
  for (std::int64_t spans = 1; spans <= 23; ++spans) {
    const std::int64_t k = spans * 256;
    HostMxfp4 a(1, k), w(1, k);
    Rng rng(static_cast<unsigned>(spans));
    std::vector<float> sums;
    for (std::int64_t s = 0; s < spans; ++s) {  // one product a span: its sum is that product
      a.set_code(0, s * 256 + 5, 1 + rng() % 7);
      w.set_code(0, s * 256 + 5, 1 + rng() % 15);
      a.scale(0, s * 8) = static_cast<std::uint8_t>(115 + rng() % 25);
      sums.push_back(
          static_cast<float>(std::ldexp(formats::e2m1_to_float(a.code(0, s * 256 + 5)) *
                                            formats::e2m1_to_float(w.code(0, s * 256 + 5)),
                                        a.scale(0, s * 8) - 127)));
    }
    std::vector<float> stack;  // docs/numerics.md, word for word
    for (std::int64_t i = 0; i < spans; ++i) {
      float s = sums[static_cast<std::size_t>(i)];
      for (std::int64_t j = i; (j & 1) != 0; j >>= 1) {
        s = stack.back() + s;
        stack.pop_back();
      }
      stack.push_back(s);
    }
    float total = stack.back();
    for (stack.pop_back(); !stack.empty(); stack.pop_back()) total = stack.back() + total;
    EXPECT_EQ(bits_of(reference(a, w)), bits_of({total})) << spans;
  }
}

}  // namespace
}  // namespace mxgemm
