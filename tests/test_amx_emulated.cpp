// The AMX kernel's loops on tiles emulated in C++, so that they are tested on machines without AMX:
// random and adversarial scales, against sums in double, to the block-exact bound.
#include "backend/cpu/amx_int8_core.h"
#include "backend/cpu/isa.h"
#include "gemm_testing.h"

namespace mxgemm {
namespace {

using namespace testing;

/// The eight tiles of one thread, with the instructions' own checks.
struct EmulatedTiles {
  static inline cpu::TileConfig config;
  static inline bool configured = false;
  static inline std::uint8_t tiles[8][16][64];
  static inline int dots = 0;

  static void configure(const cpu::TileConfig& c) noexcept {
    config = c;
    configured = true;
    std::memset(tiles, 0, sizeof tiles);
  }
  static void release() noexcept { configured = false; }
  template <int kTile>
  static void zero() noexcept {
    std::memset(tiles[kTile], 0, sizeof tiles[kTile]);
  }
  template <int kTile>
  static void load(const void* p) noexcept {
    EXPECT_TRUE(configured);
    zero<kTile>();
    for (int r = 0; r < config.rows[kTile]; ++r)
      std::memcpy(tiles[kTile][r], static_cast<const std::uint8_t*>(p) + 64 * r,
                  config.row_bytes[kTile]);
  }
  template <int kTile>
  static void stream(const void* p) noexcept {
    load<kTile>(p);
  }
  template <int kTile>
  static void store(void* p) noexcept {
    for (int r = 0; r < config.rows[kTile]; ++r)
      std::memcpy(static_cast<std::uint8_t*>(p) + 128 * r, tiles[kTile][r],
                  config.row_bytes[kTile]);
  }
  template <int kC, int kA, int kB>
  static void dot() noexcept {
    ++dots;
    EXPECT_EQ(config.row_bytes[kA], 4 * config.rows[kB]);  // the instruction faults otherwise
    EXPECT_EQ(config.rows[kC], config.rows[kA]);
    EXPECT_EQ(config.row_bytes[kC], config.row_bytes[kB]);
    for (int m = 0; m < config.rows[kC]; ++m)
      for (int n = 0; n < config.row_bytes[kC] / 4; ++n) {
        std::int32_t sum;
        std::memcpy(&sum, tiles[kC][m] + 4 * n, 4);
        for (int k = 0; k < config.row_bytes[kA]; ++k)
          sum += static_cast<std::int8_t>(tiles[kA][m][k]) *
                 static_cast<std::int8_t>(tiles[kB][k / 4][4 * n + k % 4]);
        std::memcpy(tiles[kC][m] + 4 * n, &sum, 4);
      }
  }
};

class AmxEmulated : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::detected_isa() < cpu::Isa::avx512vnni || !__builtin_cpu_supports("avx512vbmi") ||
        !__builtin_cpu_supports("avx512bf16"))
      GTEST_SKIP() << "this CPU lacks AVX-512 VBMI or BF16";
  }

  static std::vector<float> run(const HostMxfp4& a, const HostMxfp4& w) {
    const Weights weights = make_weights(w, Layout::cpu_panel16);
    RunArgs args;
    const StridedMxfp4 rows(a, a.rows);
    args.a_mxfp4 = rows.view;
    args.w = {
        .layout = Layout::cpu_panel16, .n = w.rows, .k = w.cols, .codes = weights.codes().data()};
    GuardedOutput c(a.rows, w.rows);
    args.c = c.view();
    std::vector<std::byte> workspace(cpu::shifted_rows_bytes(a.rows, a.cols) + 64, std::byte{0xFF});
    auto* aligned =
        workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64);
    const cpu::ShiftedRows shifted = cpu::shifted_rows(aligned, a.rows, a.cols);
    cpu::shift_activations(args, shifted);
    const std::int64_t row_tiles = (a.rows + 15) / 16;
    std::memset(static_cast<void*>(EmulatedTiles::tiles), 0xFF, sizeof EmulatedTiles::tiles);
    for (std::int64_t t = 0; t < row_tiles; t += cpu::kMaxRowTiles)
      std::make_unique<cpu::AmxTask<EmulatedTiles>>(
          args, shifted, t, std::min<std::int64_t>(row_tiles, t + cpu::kMaxRowTiles))
          ->run(0, (w.rows + cpu::kPairCols - 1) / cpu::kPairCols);
    return c.take();
  }

  static void expect_right(const HostMxfp4& a, const HostMxfp4& w) {
    const std::vector<float> c = run(a, w);
    for (std::int64_t m = 0; m < a.rows; ++m)
      for (std::int64_t n = 0; n < w.rows; ++n) {
        const ExactSum exact = exact_sum(a, m, w, n);
        const float got = c[static_cast<std::size_t>(m * w.rows + n)];
        if (exact.is_nan) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got), formats::kF32NaN) << m << " " << n;
        } else if (exact.partial_sums_fit) {
          ASSERT_LE(std::fabs(double{got} - exact.sum), block_exact_bound(exact, a.cols))
              << m << " " << n << " k " << a.cols << " got " << got << " want " << exact.sum;
        }
      }
  }
};

const std::vector<std::vector<int>> kScaleSets = {
    {127},
    {120, 121, 122, 123},       // uniform at the limit
    {120, 121, 122, 123, 124},  // one step too wide
    {100, 127, 140},            // single blocks
    {0},
    {0, 1, 2, 3},
    {1, 2, 3, 4, 5},  // subnormal bases
    {251, 252, 253, 254},
    {250, 254},                       // the largest
    {0, 1, 126, 127, 253, 254, 255},  // everything at once
    {120, 121, 122, 123, 255},
};

TEST_F(AmxEmulated, AnyScalesAnyShape) {
  for (const auto& a_scales : kScaleSets)
    for (const auto& w_scales : kScaleSets)
      for (const auto& [m, n, k] : {std::tuple<int, int, int>{1, 1, 1},
                                    {5, 17, 45},
                                    {16, 16, 512},
                                    {17, 33, 544},
                                    {33, 48, 1088}}) {
        const auto seed = static_cast<unsigned>(m * k);
        expect_right(random_mxfp4(m, k, seed, a_scales), random_mxfp4(n, k, seed + 1, w_scales));
      }
}

TEST_F(AmxEmulated, EveryKAndManyRows) {
  for (const std::int64_t k : {31, 32, 33, 64, 96, 100, 160, 192, 256, 320, 784, 1664, 2880, 2881})
    expect_right(random_mxfp4(9, k, 1, {120, 122}), random_mxfp4(33, k, 2, {120, 123}));
  expect_right(random_mxfp4(300, 64, 1, {120, 122}), random_mxfp4(16, 64, 2, {120, 123}));
}

// Uniform scales: S is rounded once, so it is the float32 nearest to the exact sum.
TEST_F(AmxEmulated, UniformScalesRoundOnce) {
  const HostMxfp4 a = random_mxfp4(20, 2880, 1, {120, 121, 123}),
                  w = random_mxfp4(40, 2880, 2, {121, 122, 124});
  const std::vector<float> c = run(a, w);
  for (std::int64_t m = 0; m < 20; ++m)
    for (std::int64_t n = 0; n < 40; ++n)
      EXPECT_EQ(c[static_cast<std::size_t>(m * 40 + n)],
                static_cast<float>(exact_sum(a, m, w, n).sum));
}

// A row with one block of zeros (scale byte 0), or an outlier block of 2^40, among ordinary ones.
TEST_F(AmxEmulated, ZeroBlocksFoldAndOutliersDoNot) {
  HostMxfp4 a = random_mxfp4(32, 2048, 1, {120, 121, 122}),
            w = random_mxfp4(32, 2048, 2, {121, 122});
  for (std::int64_t r = 0; r < 32; ++r) {
    for (std::int64_t i = 0; i < 32; ++i) a.set_code(r, 32 * r + i, r % 2 == 0 ? 0 : 8);
    a.scale(r, r) = 0;
  }
  EmulatedTiles::dots = 0;
  expect_right(a, w);
  const int uniform_dots = EmulatedTiles::dots;
  for (std::int64_t r = 0; r < 32; r += 3) a.scale(r, r + 1) = 160;
  EmulatedTiles::dots = 0;
  expect_right(a, w);
  EXPECT_GT(EmulatedTiles::dots, uniform_dots);  // it took the fine path somewhere
}

}  // namespace
}  // namespace mxgemm
