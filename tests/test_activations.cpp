// A as the AVX-512 and AMX kernels read it, byte for byte against a scalar model: block by block
// through quantize_block, the bases by looking at every group of blocks.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/shifted_rows.h"
#include "gemm_testing.h"
#include "quantize/quantize_block.h"

namespace mxgemm {
namespace {

using namespace testing;
using formats::kBlock;

constexpr ScaleRule kRules[] = {ScaleRule::even, ScaleRule::floor, ScaleRule::rceil,
                                ScaleRule::ceil};

/// Codes (one a byte, filled up to whole blocks) and scales of one row.
struct ModelRow {
  std::vector<unsigned> codes;
  std::vector<int> scales;

  bool counts(std::size_t b) const {
    return scales[b] == 255 || std::any_of(codes.begin() + 32 * static_cast<std::ptrdiff_t>(b),
                                           codes.begin() + 32 * static_cast<std::ptrdiff_t>(b + 1),
                                           [](unsigned c) { return (c & 7u) != 0; });
  }
  bool held(std::size_t b, int base) const {
    return scales[b] != 255 && scales[b] >= base && scales[b] <= base + 3;
  }
  /// The smallest base that holds most blocks.
  int base() const {
    std::size_t best = 0;
    int base = 127;
    for (int candidate = 0; candidate <= 251; ++candidate) {
      std::size_t num_held = 0;
      for (std::size_t b = 0; b < scales.size(); ++b)
        num_held += counts(b) && held(b, candidate) ? 1 : 0;
      if (num_held <= best) continue;
      best = num_held;
      base = candidate;
    }
    return base;
  }
};

ModelRow model_row(const RunArgs& args, std::int64_t row) {
  ModelRow model;
  const std::int64_t k = args.w.k;
  for (std::int64_t b = 0; b < scales_per_row(k); ++b) {
    const auto count = static_cast<int>(std::min<std::int64_t>(kBlock, k - b * kBlock));
    std::uint8_t packed[16] = {};
    if (args.a_mxfp4.codes != nullptr) {
      std::copy_n(args.a_mxfp4.codes + row * args.a_mxfp4.codes_stride + b * 16, (count + 1) / 2,
                  packed);
      model.scales.push_back(args.a_mxfp4.scales[row * args.a_mxfp4.scales_stride + b]);
    } else {
      float x[kBlock];
      cpu::load_floats(args.a.data, args.a.dtype, row * args.a.row_stride + b * kBlock, count, x);
      model.scales.push_back(quantize_block(x, count, scale_rule_addend(args.activation_rule),
                                            args.non_finite, packed));
    }
    for (int i = 0; i < kBlock; ++i)
      model.codes.push_back(i < count ? (packed[i / 2] >> (4 * (i % 2))) & 15u : 0u);
  }
  return model;
}

/// Where element i of 8 stands among them.
std::int64_t place(std::int64_t i) {
  return i % 2 * 4 + i / 2;
}

int num_outliers, num_others;  // blocks that the tests have met

/// Adds the outliers that the row has.
void expect_row(const RunArgs& args, const cpu::ShiftedRows& a, std::int64_t row,
                std::uint32_t& outliers_of_tile) {
  const ModelRow model = model_row(args, row);
  const int base = model.base();
  ASSERT_EQ(a.row_base[row], base) << row;
  for (std::int64_t b = 0; b < 2 * a.k_tiles; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const bool exists = b < a.num_blocks, counts = exists && model.counts(at);
    const bool outlier = counts && !model.held(at, base);
    if (exists) {
      const std::uint16_t rows = a.outlier_rows[row / 16 * a.num_blocks + b];
      ASSERT_EQ(rows >> row % 16 & 1, outlier ? 1 : 0) << "row " << row << " block " << b;
    }
    ++(outlier ? num_outliers : num_others);
    if (outlier) {
      ++outliers_of_tile;
      ASSERT_EQ(a.scales[row * a.padded_blocks + b], model.scales[at]);
      for (std::size_t i = 0; i < 32; ++i)
        ASSERT_EQ(
            a.outlier_codes[(row * a.num_blocks + b) * 16 + static_cast<std::int64_t>(i / 2)] >>
                    (4 * (i % 2)) &
                15,
            model.codes[32 * at + i])
            << "row " << row << " block " << b;
    }
    for (std::size_t i = 0; i < 32; ++i) {
      const int want = counts && !outlier ? formats::e2m1_doubled(model.codes[32 * at + i]) *
                                                (1 << (model.scales[at] - base))
                                          : 0;
      const auto k = static_cast<std::int64_t>(32 * at + i);
      ASSERT_EQ(a.tile(row / 16, k / 64)[row % 16 * 64 + k % 64 / 8 * 8 + place(k % 8)], want)
          << "row " << row << " element " << k << " scale " << (exists ? model.scales[at] : -1)
          << " base " << base;
    }
  }
}

/// A row past the last one.
void expect_no_row(const cpu::ShiftedRows& a, std::int64_t row) {
  ASSERT_EQ(a.row_base[row], 127);
  for (std::int64_t b = 0; b < a.num_blocks; ++b)
    ASSERT_EQ(a.outlier_rows[row / 16 * a.num_blocks + b] >> row % 16 & 1, 0);
  for (std::int64_t k = 0; k < 64 * a.k_tiles; ++k)
    ASSERT_EQ(a.tile(row / 16, k / 64)[row % 16 * 64 + k % 64], 0);
}

void expect_shifted(const RunArgs& args) {
  KernelWorkspace workspace(cpu::shifted_rows_bytes(args.m(), args.w.k));
  const cpu::ShiftedRows a = cpu::shifted_rows(workspace.data(), args.m(), args.w.k);
  cpu::shift_activations(args, a);
  for (std::int64_t tile = 0; tile < (args.m() + 15) / 16; ++tile) {
    std::uint32_t outliers = 0;
    for (std::int64_t row = 16 * tile; row < 16 * tile + 16; ++row) {
      row < args.m() ? expect_row(args, a, row, outliers) : expect_no_row(a, row);
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(a.num_outliers[tile], outliers);
  }
  workspace.expect_guard();
}

/// UnpackedRows with the fastest tools and with the portable ones, byte for byte.
void expect_unpacked(const RunArgs& args) {
  const std::int64_t m = args.m(), k = args.w.k;
  KernelWorkspace got_bytes(cpu::unpacked_rows_bytes(m, k));
  KernelWorkspace want_bytes(cpu::unpacked_rows_bytes(m, k));
  const cpu::UnpackedRows got = cpu::unpacked_rows(got_bytes.data(), m, k);
  const cpu::UnpackedRows want = cpu::unpacked_rows(want_bytes.data(), m, k);
  cpu::unpack_activations(args, cpu::avx512_row_tools(), got);
  cpu::unpack_activations(args, {cpu::quantize_row_baseline, cpu::unpack_blocks_baseline}, want);
  const auto blocks = static_cast<std::size_t>(m * want.num_blocks);
  EXPECT_EQ(std::memcmp(got.values, want.values, blocks * kBlock), 0);
  EXPECT_EQ(std::memcmp(got.offsets, want.offsets, blocks * sizeof *want.offsets), 0);
  EXPECT_EQ(std::memcmp(got.scales, want.scales, blocks * sizeof *want.scales), 0);
  EXPECT_EQ(std::memcmp(got.scale_bytes, want.scale_bytes, blocks), 0);
  EXPECT_EQ(std::memcmp(got.moderate, want.moderate, static_cast<std::size_t>(m)), 0);
  got_bytes.expect_guard();
}

void expect_right(const RunArgs& args) {
  expect_shifted(args);
  expect_unpacked(args);
}

RunArgs args_of(const void* data, DType dtype, std::int64_t m, std::int64_t k,
                std::int64_t stride = 0) {
  RunArgs args;
  args.a = {data, dtype, m, k, stride == 0 ? k : stride};
  args.w.k = k;
  return args;
}

RunArgs args_of(const StridedMxfp4& a) {
  RunArgs args;
  args.a_mxfp4 = a.view;
  args.w.k = a.view.cols;
  return args;
}

/// Normal bf16 values, each block of them times 2^(base + step): one of `bases` for each group of
/// blocks, one of `steps` for each block.
std::vector<std::uint16_t> scaled_bf16(std::int64_t m, std::int64_t k, unsigned seed,
                                       const std::vector<int>& bases, std::int64_t group,
                                       const std::vector<int>& steps) {
  std::vector<std::uint16_t> x = random_bf16(static_cast<std::size_t>(m * k), seed);
  Rng rng(seed);
  for (std::int64_t r = 0; r < m; ++r) {
    int base = 0;
    for (std::int64_t first = 0; first < k; first += kBlock) {
      if (first % (kBlock * group) == 0) base = bases[rng() % bases.size()];
      const int exponent = base + steps[rng() % steps.size()];
      for (std::int64_t i = r * k + first; i < r * k + std::min(k, first + kBlock); ++i) {
        std::uint16_t& v = x[static_cast<std::size_t>(i)];
        v = formats::float_to_bf16(std::ldexp(formats::bf16_to_float(v), exponent));
      }
    }
  }
  return x;
}

constexpr int kZeros = -1000;  // as an exponent

class Activations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::detected_isa() < cpu::Isa::avx512vnni || !__builtin_cpu_supports("avx512vbmi"))
      GTEST_SKIP() << "this CPU lacks AVX-512 VBMI";
  }
};

// Every finite bf16 value under five scales, shifted by 0..3 by what stands in the next block.
TEST_F(Activations, EveryBf16UnderEveryScaleAndShift) {
  for (std::uint32_t h = 0; h < 0x7F80; ++h) {
    const auto positive = static_cast<std::uint16_t>(h);
    const auto exponent = static_cast<int>(h >> 7) - 127;
    std::uint16_t x[20][64];
    for (int row = 0; row < 20; ++row) {
      const int top = std::clamp(exponent + row / 4, -126, 127);
      for (int i = 0; i < 32; ++i) {
        x[row][i] = static_cast<std::uint16_t>(positive | (i % 2 != 0 ? 0x8000u : 0u));
        x[row][32 + i] = 0;
      }
      x[row][31] = std::max(positive, formats::float_to_bf16(std::ldexp(1.0f, top)));
      x[row][32] = formats::float_to_bf16(std::ldexp(1.0f, std::min(top + row % 4, 127)));
    }
    RunArgs args = args_of(x, DType::bf16, 20, 64);
    args.activation_rule = ScaleRule::floor;
    expect_right(args);
    if (HasFailure()) FAIL() << "bf16 bits " << h;
  }
}

TEST_F(Activations, EveryBf16AsAmaxUnderEveryRule) {
  for (const ScaleRule rule : kRules)
    for (std::uint32_t h = 0; h < 0x7F80; h += 16) {
      std::uint16_t x[16][96];
      Rng rng(h);
      for (std::uint32_t row = 0; row < 16; ++row)
        for (std::uint16_t& v : x[row])  // anything up to h + row, mostly close below it
          v = static_cast<std::uint16_t>(
              (h + row - std::min<std::uint32_t>(h + row, rng() % 700u * (rng() % 2))) |
              (rng() & 0x8000u));
      RunArgs args = args_of(x, DType::bf16, 16, 96);
      args.activation_rule = rule;
      expect_right(args);
      if (HasFailure()) FAIL() << "amax bits " << h << " rule " << to_string(rule);
    }
}

TEST_F(Activations, EveryNonFiniteBf16) {
  for (const NonFinite policy : {NonFinite::propagate, NonFinite::saturate})
    for (std::uint32_t h = 0; h < 65536; ++h) {
      if ((h & 0x7FFFu) < 0x7F80u) continue;
      if ((h & 0x7Fu) != 0 && h % 7 != 0) continue;  // infinities, and a seventh of the NaNs
      auto x = random_bf16(2 * 1100, h);
      x[h % 2200] = static_cast<std::uint16_t>(h);
      RunArgs args = args_of(x.data(), DType::bf16, 2, 1100);
      args.non_finite = policy;
      expect_right(args);
      if (HasFailure()) FAIL() << "bf16 bits " << h;
    }
}

TEST_F(Activations, OutliersOfEveryKind) {
  num_outliers = num_others = 0;
  int seed = 0;
  for (const std::int64_t k : {64, 100, 512, 1024, 1664, 2880, 2881})
    for (const std::int64_t group : {1, 2, 4, 16, 1000})
      for (const std::vector<int>& bases :
           {std::vector<int>{0}, {0, 40}, {-30, 0, 7, kZeros}, {-122, -100, 100}})
        for (const std::vector<int>& steps : {std::vector<int>{0}, {0, 1, 2}, {0, 1, kZeros}}) {
          const auto x = scaled_bf16(5, k, static_cast<unsigned>(++seed), bases, group, steps);
          for (const ScaleRule rule : kRules) {
            RunArgs args = args_of(x.data(), DType::bf16, 5, k);
            args.activation_rule = rule;
            expect_right(args);
            if (HasFailure()) FAIL() << "k " << k << " group " << group << " seed " << seed;
          }
        }
  EXPECT_GT(num_outliers, 5000);
  EXPECT_GT(num_others, 5000);
}

TEST_F(Activations, Mxfp4WithAnyScales) {
  const std::vector<std::vector<int>> sets = {{127},
                                              {120, 121, 122, 123},
                                              {120, 121, 122, 123, 124},
                                              {100, 127, 140},
                                              {0},
                                              {0, 1, 2, 3},
                                              {0, 1, 2, 3, 4},
                                              {251, 252, 253, 254},
                                              {255},
                                              {250, 254},
                                              {0, 1, 126, 127, 253, 254, 255},
                                              {120, 121, 122, 123, 255}};
  for (const auto& scales : sets)
    for (const std::int64_t k : {1, 31, 32, 33, 45, 64, 96, 100, 512, 544, 768, 1088, 2880, 2881}) {
      HostMxfp4 a = random_mxfp4(18, k, static_cast<unsigned>(k), scales);
      for (std::int64_t r = 0; r < 18; r += 2)  // zero blocks under any scale
        for (std::int64_t b = r % 3; b < scales_per_row(k); b += 3)
          for (std::int64_t i = 32 * b; i < std::min(k, 32 * b + 32); ++i)
            a.set_code(r, i, i % 2 == 0 ? 0 : 8);
      const StridedMxfp4 rows(a, 18);
      expect_right(args_of(rows));
      if (HasFailure()) FAIL() << "k " << k << " first scale " << scales[0];
    }
}

TEST_F(Activations, EveryLengthAndTypeAtAnyAlignment) {
  for (std::int64_t k = 1; k <= 2300; k += k < 200 ? 1 : 61)
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      constexpr std::int64_t kRows = 3;
      const std::int64_t stride = k + 3, size = size_of(dtype);
      std::vector<std::uint8_t> any = random_bytes(
          static_cast<std::size_t>(kRows * stride * size) + 1, static_cast<unsigned>(k));
      // Row 0 is ordinary, the others have any bits: NaN, Inf, subnormals.
      const auto normal = random_bf16(static_cast<std::size_t>(k), static_cast<unsigned>(k));
      for (std::int64_t i = 0; i < k; ++i) {
        const float value = formats::bf16_to_float(normal[static_cast<std::size_t>(i)]);
        const std::uint16_t half =
            dtype == DType::f16 ? formats::float_to_f16(value) : formats::float_to_bf16(value);
        std::memcpy(any.data() + 1 + i * size,
                    dtype == DType::f32 ? static_cast<const void*>(&value) : &half,
                    static_cast<std::size_t>(size));
      }
      for (const NonFinite policy : {NonFinite::propagate, NonFinite::saturate}) {
        RunArgs args = args_of(any.data() + 1, dtype, kRows, k, stride);
        args.non_finite = policy;
        expect_right(args);
        if (HasFailure()) FAIL() << "k " << k << " type " << to_string(dtype);
      }
    }
}

// The last row ends where the next page must not be read.
TEST_F(Activations, ReadsNothingPastTheEnd) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* map = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* end = static_cast<std::uint8_t*>(map) + 2 * page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (std::int64_t k = 1; k <= 1100; ++k) {
      const auto bytes = static_cast<std::size_t>(k * size_of(dtype));
      const auto values = random_bytes(bytes, static_cast<unsigned>(k));
      std::copy(values.begin(), values.end(), end - bytes);
      // bf16: exponents near 1, so that no row leaves the fast path
      for (std::size_t i = 1; dtype == DType::bf16 && i < bytes; i += 2)
        *(end - bytes + i) = static_cast<std::uint8_t>(0x3F | (values[i] & 0x80));
      expect_right(args_of(end - bytes, dtype, 1, k));
      if (HasFailure()) FAIL() << "k " << k << " type " << to_string(dtype);
    }
  munmap(map, 3 * page);
}

TEST_F(Activations, ThreadsGiveTheSameBytes) {
  auto pool = ThreadPool::create(3);
  ASSERT_OK(pool);
  for (const auto& [m, k] :
       {std::pair<std::int64_t, std::int64_t>{1, 2880}, {50, 512}, {100, 32}}) {
    const auto x = scaled_bf16(m, k, 1, {0, 20}, 8, {0, 1, 2});
    RunArgs args = args_of(x.data(), DType::bf16, m, k);
    args.threads = pool->get();
    expect_right(args);
  }
}

}  // namespace
}  // namespace mxgemm
