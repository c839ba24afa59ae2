// The quantizer: exhaustive over bf16 against an independent model, rules, policies, layouts of the
// output, instruction sets.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>

#include "backend/cpu/isa.h"
#include "quantize/quantize_block.h"
#include "testing.h"

namespace mxgemm {
namespace {

using namespace testing;

constexpr ScaleRule kRules[] = {ScaleRule::even, ScaleRule::floor, ScaleRule::rceil,
                                ScaleRule::ceil};

// An independent model: the scale from frexp and comparisons, the element by nearest value.
int model_scale(double amax, ScaleRule rule) {
  if (amax == 0) return 0;
  int e = 0;
  const double mantissa = std::frexp(amax, &e) * 2;  // in [1, 2)
  int exponent = e - 1 - 2;
  switch (rule) {
    case ScaleRule::even:
      exponent += mantissa >= 1.75 ? 1 : 0;
      break;
    case ScaleRule::floor:
      break;
    case ScaleRule::rceil:
      exponent += mantissa > 1.5 ? 1 : 0;
      break;
    case ScaleRule::ceil:
      exponent += mantissa > 1.0 ? 1 : 0;
      break;
  }
  return std::max(exponent + 127, 0);
}

unsigned model_code(double x, int scale) {
  const double q = std::fabs(std::ldexp(x, 127 - scale));
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  unsigned best = 0;
  for (unsigned code = 1; code < 8; ++code) {
    const double d = std::fabs(q - values[code]), d_best = std::fabs(q - values[best]);
    if (d < d_best || (d == d_best && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(x) ? 8u : 0u);
}

class QuantizeIsa : public ::testing::TestWithParam<cpu::Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > cpu::detected_isa()) GTEST_SKIP() << "this CPU lacks the instruction set";
  }
  cpu::QuantizeRow quantize_row() const { return cpu::quantize_row_for(GetParam()); }

  // One block of 32, as it comes out of a row of copies long enough for every code path of a
  // quantizer: all copies must agree.
  template <class T>
  void quantize_one(const T* block, DType dtype, std::uint32_t addend, NonFinite policy,
                    std::uint8_t* codes, std::uint8_t* scale) const {
    constexpr std::int64_t kCopies = 32 + 9 + 1;
    T row[kCopies * 32];
    std::uint8_t all_codes[kCopies * 16], all_scales[kCopies];
    for (std::int64_t i = 0; i < kCopies; ++i) std::copy_n(block, 32, row + 32 * i);
    quantize_row()(row, dtype, kCopies * 32, addend, policy, all_codes, all_scales);
    std::copy_n(all_codes, 16, codes);
    *scale = all_scales[0];
    for (std::int64_t i = 1; i < kCopies; ++i) {
      ASSERT_TRUE(std::equal(codes, codes + 16, all_codes + 16 * i)) << "copy " << i;
      ASSERT_EQ(*scale, all_scales[i]) << "copy " << i;
    }
  }
};

// Every finite bf16 value as the largest of its block, with every smaller one beside it somewhere.
TEST_P(QuantizeIsa, EveryBf16AsAmaxUnderEveryRule) {
  for (const ScaleRule rule : kRules)
    for (std::uint32_t h = 0; h < 0x7F80; ++h) {
      std::uint16_t block[32];
      Rng rng(h);
      for (std::uint16_t& v : block)  // anything up to h, mostly close below it
        v = static_cast<std::uint16_t>((h - std::min<std::uint32_t>(h, rng() % 700u)) |
                                       (rng() & 0x8000u));
      block[rng() % 32] = static_cast<std::uint16_t>(h | (rng() & 0x8000u));
      std::uint8_t codes[16], scale = 0;
      quantize_one(block, DType::bf16, scale_rule_addend(rule), NonFinite::propagate, codes,
                   &scale);
      const int want = model_scale(formats::bf16_to_float(static_cast<std::uint16_t>(h)), rule);
      ASSERT_EQ(scale, want) << "amax bits " << h << " rule " << to_string(rule);
      for (unsigned i = 0; i < 32; ++i)
        ASSERT_EQ((codes[i / 2] >> (4 * (i % 2))) & 15,
                  model_code(formats::bf16_to_float(block[i]), want))
            << "amax bits " << h << " element bits " << block[i];
    }
}

// Every bf16 value (both signs) under every scale byte that can hold it: the element rounding.
TEST_P(QuantizeIsa, EveryBf16UnderEveryScale) {
  for (std::uint32_t h = 0; h < 0x7F80; ++h) {
    const auto positive = static_cast<std::uint16_t>(h);
    const float x = formats::bf16_to_float(positive);
    const int first = model_scale(x, ScaleRule::floor);
    for (int scale = first; scale <= std::min(first + 4, 252); ++scale) {
      // One element of 4 * 2^(scale - 127) or 1.75 times that, which `ceil` and `floor` turn into
      // this scale; the rest is x, so that x meets every scale it can meet, and +-.
      const float amax = std::ldexp(4.0f, scale - 127);
      if (amax < x) continue;
      std::uint16_t block[32];
      for (int i = 0; i < 32; ++i)
        block[i] = static_cast<std::uint16_t>(positive | (i % 2 != 0 ? 0x8000u : 0u));
      block[31] = formats::float_to_bf16(amax);
      std::uint8_t codes[16], got = 0;
      quantize_one(block, DType::bf16, scale_rule_addend(ScaleRule::floor), NonFinite::propagate,
                   codes, &got);
      ASSERT_EQ(got, scale) << h;
      ASSERT_EQ(codes[0] & 15, model_code(x, scale)) << "x bits " << h << " scale " << scale;
      ASSERT_EQ(codes[0] >> 4, model_code(-x, scale)) << "x bits " << h << " scale " << scale;
    }
  }
}

// The bf16 values that are no numbers, each in every place of a block.
TEST_P(QuantizeIsa, EveryNonFiniteBf16UnderEveryRule) {
  for (const ScaleRule rule : kRules)
    for (std::uint32_t h = 0; h < 65536; ++h) {
      if ((h & 0x7FFFu) < 0x7F80u) continue;
      const bool is_nan = (h & 0x7FFFu) > 0x7F80u;
      std::uint16_t block[32];
      std::fill(std::begin(block), std::end(block), std::uint16_t{0x4080});  // 4.0
      block[h % 32] = static_cast<std::uint16_t>(h);
      std::uint8_t codes[16], scale = 0;
      const std::uint32_t addend = scale_rule_addend(rule);
      quantize_one(block, DType::bf16, addend, NonFinite::propagate, codes, &scale);
      ASSERT_EQ(scale, 255);
      for (const std::uint8_t byte : codes) ASSERT_EQ(byte, 0);
      quantize_one(block, DType::bf16, addend, NonFinite::saturate, codes, &scale);
      const int want_scale = is_nan ? model_scale(4.0, rule) : 253;
      ASSERT_EQ(scale, want_scale);
      for (unsigned i = 0; i < 32; ++i) {
        const unsigned want = i != h % 32 ? model_code(4.0, want_scale)
                              : is_nan    ? 0u
                                          : 7u | (h >> 15 << 3);
        ASSERT_EQ((codes[i / 2] >> (4 * (i % 2))) & 15u, want) << h;
      }
    }
}

// All float32 neighbours of the seven thresholds, at many exponents, in every lane.
TEST_P(QuantizeIsa, Float32ThresholdsAndTies) {
  const float thresholds[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  for (int scale = 0; scale <= 252; ++scale)
    for (const float t : thresholds)
      for (int nudge = -1; nudge <= 1; ++nudge) {
        const float q = nudge == 0 ? t : std::nextafter(t, nudge < 0 ? 0.0f : 100.0f);
        const double exact = std::ldexp(double{q}, scale - 127);
        const auto x = static_cast<float>(exact);
        float block[32];
        std::fill(std::begin(block), std::end(block), x);
        block[7] = std::ldexp(4.0f, scale - 127);
        std::uint8_t codes[16], got = 0;
        quantize_one(block, DType::f32, 0, NonFinite::propagate, codes, &got);
        ASSERT_EQ(got, scale);
        for (unsigned i = 0; i < 32; ++i)
          if (i != 7) {
            ASSERT_EQ((codes[i / 2] >> (4 * (i % 2))) & 15, model_code(x, scale));
          }
      }
}

TEST_P(QuantizeIsa, EqualsTheDefinitionOnRandomRowsOfAnyTypeAndLength) {
  for (std::int64_t k = 1; k <= 2300; k += k < 200 ? 1 : 61)
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const NonFinite policy : {NonFinite::propagate, NonFinite::saturate}) {
        Rng rng(static_cast<unsigned>(k));
        std::vector<std::uint8_t> raw(static_cast<std::size_t>(k * 4) + 1);
        for (std::uint8_t& b : raw) b = random_byte(rng);  // any bits: NaN, Inf, subnormals
        const std::uint8_t* x = raw.data() + 1;            // unaligned
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(codes_per_row_bytes(k)) + 1, 0xEE);
        std::vector<std::uint8_t> scales(static_cast<std::size_t>(scales_per_row(k)) + 1, 0xEE);
        auto want_codes = codes, want_scales = scales;
        const std::uint32_t addend = scale_rule_addend(ScaleRule::even);
        quantize_row()(x, dtype, k, addend, policy, codes.data(), scales.data());
        cpu::quantize_row_baseline(x, dtype, k, addend, policy, want_codes.data(),
                                   want_scales.data());
        ASSERT_EQ(codes, want_codes) << k;
        ASSERT_EQ(scales, want_scales) << k;
        ASSERT_EQ(codes.back(), 0xEE);
        ASSERT_EQ(scales.back(), 0xEE);
        if (k % 2 != 0) {
          ASSERT_EQ(codes[codes.size() - 2] >> 4, 0) << "an odd row's last nibble";
        }
      }
}

INSTANTIATE_TEST_SUITE_P(
    Isa, QuantizeIsa, ::testing::Values(cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512vnni),
    [](const auto& param) { return std::string(cpu::to_string(param.param)); });

struct Quantized {
  std::vector<int> codes;
  int scale;
};
Quantized quantize_values(std::vector<float> values, ScaleRule rule, NonFinite policy) {
  const auto k = static_cast<std::int64_t>(values.size());
  HostMxfp4 out(1, k);
  EXPECT_OK(quantize(MatrixView<const float>{values.data(), 1, k, k}, out.buffer(),
                     {.rule = rule, .non_finite = policy}));
  Quantized q{{}, out.scales[0]};
  for (std::int64_t i = 0; i < k; ++i) q.codes.push_back(static_cast<int>(out.code(0, i)));
  return q;
}

TEST(Quantize, LargestScaleOfEachRule) {
  const float largest = 0x1.fffffep127f;
  const int want[] = {253, 252, 253, 253};
  for (const ScaleRule rule : kRules)
    EXPECT_EQ(quantize_values({largest}, rule, NonFinite::propagate).scale,
              want[static_cast<int>(rule)]);
}

TEST(Quantize, ZerosKeepTheirSigns) {
  for (const ScaleRule rule : kRules) {
    const Quantized q = quantize_values({0.0f, -0.0f, 0.0f}, rule, NonFinite::propagate);
    EXPECT_EQ(q.scale, 0);
    EXPECT_EQ(q.codes, (std::vector<int>{0, 8, 0}));
  }
  const Quantized tiny = quantize_values({-0x1p-149f, 4.0f}, ScaleRule::even, NonFinite::propagate);
  EXPECT_EQ(tiny.codes, (std::vector<int>{8, 6}));
}

TEST(Quantize, NonFinitePropagates) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    const Quantized q = quantize_values({1.0f, bad, -3.0f}, ScaleRule::even, NonFinite::propagate);
    EXPECT_EQ(q.scale, 255);
    EXPECT_EQ(q.codes, (std::vector<int>{0, 0, 0}));
  }
}

TEST(Quantize, NonFiniteSaturates) {
  for (const ScaleRule rule : kRules) {
    const Quantized inf =
        quantize_values({0x1p127f, INFINITY, -INFINITY, -1.0f, NAN}, rule, NonFinite::saturate);
    EXPECT_EQ(inf.scale, 253);
    EXPECT_EQ(inf.codes, (std::vector<int>{4, 7, 15, 8, 0}));
    const Quantized nan = quantize_values({4.0f, NAN, -6.0f}, rule, NonFinite::saturate);
    EXPECT_EQ(nan.scale, quantize_values({4.0f, 0.0f, -6.0f}, rule, NonFinite::propagate).scale);
    EXPECT_EQ(nan.codes[1], 0);
    const Quantized all_nan = quantize_values({NAN, NAN}, rule, NonFinite::saturate);
    EXPECT_EQ(all_nan.scale, 0);
    EXPECT_EQ(all_nan.codes, (std::vector<int>{0, 0}));
  }
}

TEST(Quantize, OnlyTheBlockWithTheNanIsNan) {
  std::vector<float> x(96, 1.0f);
  x[40] = NAN;
  HostMxfp4 out(1, 96);
  ASSERT_OK(quantize(MatrixView<const float>{x.data(), 1, 96, 96}, out.buffer()));
  EXPECT_EQ(out.scales, (std::vector<std::uint8_t>{125, 255, 125}));
}

TEST(Quantize, LeavesSlackAloneAndReadsOnlyTheMatrix) {
  constexpr std::int64_t kRows = 5, kCols = 45, kStride = 50;
  std::vector<float> in(kRows * kStride, NAN);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c)
      in[static_cast<std::size_t>(r * kStride + c)] = 0.1f * static_cast<float>(c - r);
  std::vector<std::uint8_t> codes(kRows * 30, 0xAB), scales(kRows * 5, 0xCD);
  const Mxfp4Buffer out{codes.data(), scales.data(), kRows, kCols, 30, 5};
  ASSERT_OK(quantize(MatrixView<const float>{in.data(), kRows, kCols, kStride}, out));
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t j = 23; j < 30; ++j) EXPECT_EQ(codes[r * 30 + j], 0xAB);
    for (std::size_t j = 2; j < 5; ++j) EXPECT_EQ(scales[r * 5 + j], 0xCD);
    EXPECT_EQ(codes[r * 30 + 22] >> 4, 0);
    EXPECT_NE(scales[r * 5], 255);
  }
}

TEST(Quantize, ThreadsAndLongRowsGiveTheSameBytes) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 200001}, {700, 33}, {33, 4096}}) {
    const auto x = random_bf16(static_cast<std::size_t>(rows * cols), 3);
    HostMxfp4 want(rows, cols);
    ASSERT_OK(quantize(bf16_view(x, rows, cols), want.buffer()));
    for (int threads = 2; threads <= 8; ++threads) {
      auto pool = ThreadPool::create(threads);
      ASSERT_OK(pool);
      HostMxfp4 got(rows, cols);
      ASSERT_OK(quantize(bf16_view(x, rows, cols), got.buffer(), {.threads = pool->get()}));
      EXPECT_EQ(got.codes, want.codes);
      EXPECT_EQ(got.scales, want.scales);
    }
  }
}

TEST(Quantize, TheCallersRoundingModeChangesNothing) {
  std::vector<float> x{0x1p-140f, 0x1p-141f, -0x1.8p-140f, 0x1p-149f};
  const Quantized want = quantize_values(x, ScaleRule::even, NonFinite::propagate);
  EXPECT_EQ(want.scale, 0);
  std::fenv_t saved;
  std::fegetenv(&saved);
  std::fesetround(FE_UPWARD);
  const Quantized got = quantize_values(x, ScaleRule::even, NonFinite::propagate);
  std::fesetenv(&saved);
  EXPECT_EQ(got.codes, want.codes);
}

TEST(Dequantize, EveryCodeUnderEveryScale) {
  HostMxfp4 in(256, 16);
  for (int b = 0; b < 256; ++b) {
    in.scale(b, 0) = static_cast<std::uint8_t>(b);
    for (unsigned code = 0; code < 16; ++code) in.set_code(b, code, code);
  }
  std::vector<float> f32(256 * 16);
  std::vector<std::uint16_t> b16(256 * 16), h16(256 * 16);
  ASSERT_OK(dequantize(in.view(), MatrixView<float>{f32.data(), 256, 16, 16}));
  ASSERT_OK(
      dequantize(in.view(), MatrixView<bf16>{reinterpret_cast<bf16*>(b16.data()), 256, 16, 16}));
  ASSERT_OK(
      dequantize(in.view(), MatrixView<f16>{reinterpret_cast<f16*>(h16.data()), 256, 16, 16}));
  for (int b = 0; b < 256; ++b)
    for (unsigned code = 0; code < 16; ++code) {
      const auto i = static_cast<std::size_t>(b) * 16 + code;
      if (b == 255) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(f32[i]), formats::kF32NaN);
        EXPECT_EQ(b16[i], formats::kBf16NaN);
        EXPECT_EQ(h16[i], 0x7E00);
        continue;
      }
      const auto want =
          static_cast<float>(std::ldexp(double{formats::e2m1_to_float(code)}, b - 127));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(f32[i]), std::bit_cast<std::uint32_t>(want));
      EXPECT_EQ(b16[i], formats::float_to_bf16(want));
      EXPECT_EQ(h16[i], formats::float_to_f16(want));
    }
}

// All 16 codes survive decode -> encode under every scale that a block's own amax gives back.
TEST(Quantize, EveryCodeRoundTrips) {
  for (int b = 0; b <= 252; ++b) {
    HostMxfp4 in(1, 32);
    in.scales[0] = static_cast<std::uint8_t>(b);
    for (unsigned i = 0; i < 32; ++i) in.set_code(0, i, i % 16);
    std::vector<float> values(32);
    ASSERT_OK(dequantize(in.view(), MatrixView<float>{values.data(), 1, 32, 32}));
    HostMxfp4 out(1, 32);
    ASSERT_OK(quantize(MatrixView<const float>{values.data(), 1, 32, 32}, out.buffer()));
    EXPECT_EQ(out.scales[0], b);
    EXPECT_EQ(out.codes, in.codes) << b;
  }
}

TEST(Quantize, RejectsBadArguments) {
  std::vector<float> x(64);
  HostMxfp4 out(2, 32);
  const auto in = MatrixView<const float>{x.data(), 2, 32, 32};
  const auto bad = StatusCode::invalid_argument;
  EXPECT_ERROR(quantize(MatrixView<const float>{nullptr, 2, 32, 32}, out.buffer()), bad,
               "in.data is null");
  EXPECT_ERROR(quantize(MatrixView<const float>{x.data(), 2, 32, 31}, out.buffer()), bad,
               "in.row_stride is 31");
  EXPECT_ERROR(quantize(MatrixView<const float>{x.data(), -1, 32, 32}, out.buffer()), bad,
               "in.rows is -1");
  EXPECT_ERROR(quantize(in, Mxfp4Buffer{out.codes.data(), out.scales.data(), 2, 31, 16, 1}), bad,
               "out is [2, 31]");
  EXPECT_ERROR(quantize(in, Mxfp4Buffer{out.codes.data(), nullptr, 2, 32, 16, 1}), bad,
               "out.scales is null");
  EXPECT_ERROR(quantize(in, Mxfp4Buffer{out.codes.data(), out.scales.data(), 2, 32, 15, 1}), bad,
               "codes_stride is 15");
  EXPECT_ERROR(quantize(in, out.buffer(), {.rule = static_cast<ScaleRule>(9)}), bad,
               "scale rule is 9");
  auto* bytes = reinterpret_cast<std::uint8_t*>(x.data());
  EXPECT_ERROR(quantize(in, Mxfp4Buffer{bytes, out.scales.data(), 2, 32, 16, 1}), bad, "overlap");
  EXPECT_ERROR(quantize_activations(Device::cuda(0), in, out.buffer()), StatusCode::unsupported,
               "cuda");
}

TEST(Quantize, EnvironmentOfAnUnknownInstructionSetIsAnError) {
  std::vector<float> x(32);
  HostMxfp4 out(1, 32);
  setenv("MXGEMM_CPU_ISA", "avx9000", 1);
  EXPECT_ERROR(quantize(MatrixView<const float>{x.data(), 1, 32, 32}, out.buffer()),
               StatusCode::invalid_argument, "avx9000");
  unsetenv("MXGEMM_CPU_ISA");
}

}  // namespace
}  // namespace mxgemm
