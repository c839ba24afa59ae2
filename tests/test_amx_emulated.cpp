// The AMX kernel's loops on tiles emulated in C++, so that they are tested on machines without AMX:
// random and adversarial scales, against sums in double, to the block-exact bound.
#include "backend/cpu/amx_run.h"
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

/// Cuts work as for so many threads and does it on one: the emulated tiles are but one set.
class SerialPool final : public ThreadPool {
 public:
  explicit SerialPool(int num_threads) noexcept : num_threads_(num_threads) {}
  int num_threads() const noexcept override { return num_threads_; }
  void run(std::int64_t num_tasks, Task task, void* context) noexcept override {
    for (std::int64_t i = num_tasks; i-- > 0;) task(context, i);
  }

 private:
  int num_threads_;
};

class AmxEmulated : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::detected_isa() < cpu::Isa::avx512vnni || !__builtin_cpu_supports("avx512vbmi") ||
        !__builtin_cpu_supports("avx512bf16"))
      GTEST_SKIP() << "this CPU lacks AVX-512 VBMI or BF16";
  }

  static void run_into(const HostMxfp4& a, const HostMxfp4& w, const Matrix& c,
                       const Epilogue& epilogue = {}, int block_k = 1024, int num_threads = 1) {
    const Weights weights = make_weights(w, Layout::cpu_panel16);
    RunArgs args;
    const StridedMxfp4 rows(a, a.rows);
    args.a_mxfp4 = rows.view;
    args.w = {
        .layout = Layout::cpu_panel16, .n = w.rows, .k = w.cols, .codes = weights.codes().data()};
    args.c = c;
    args.epilogue = epilogue;
    args.config.block_k = block_k;
    KernelWorkspace workspace(cpu::shifted_rows_bytes(a.rows, a.cols));
    const cpu::ShiftedRows shifted = cpu::shifted_rows(workspace.data(), a.rows, a.cols);
    cpu::shift_activations(args, shifted);
    std::memset(static_cast<void*>(EmulatedTiles::tiles), 0xFF, sizeof EmulatedTiles::tiles);
    SerialPool pool(num_threads);
    args.threads = &pool;
    cpu::run_on_tiles<EmulatedTiles>(args, shifted);
    workspace.expect_guard();
  }

  static std::vector<float> run(const HostMxfp4& a, const HostMxfp4& w) {
    GuardedOutput c(a.rows, w.rows);
    run_into(a, w, c.view());
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

// Scales that agree over `group` blocks to within 3 and differ by much more between groups.
void group_scales(HostMxfp4& x, std::int64_t group, unsigned seed) {
  std::mt19937 random(seed);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    std::mt19937::result_type base = 0;
    for (std::int64_t b = 0; b < scales_per_row(x.cols); ++b) {
      if (b % group == 0) base = 100 + random() % 5 * 10;
      x.scale(r, b) = static_cast<std::uint8_t>(base + random() % 4);
    }
  }
}

// Every grain of W (512 elements, 128, 64, 32, and the whole of K) against rows of A without
// outliers and with more and more of them.
TEST_F(AmxEmulated, EveryGrainOfBothSides) {
  constexpr std::int64_t kGroups[] = {1000, 16, 4, 2, 1};
  for (const auto& [m, n, k] :
       {std::tuple<int, int, int>{3, 40, 1184}, {20, 64, 2048}, {70, 33, 1536 + 96}}) {
    int dots = 0;  // single blocks of W cost more products, outliers of A none
    for (const std::int64_t a_group : kGroups)
      for (const std::int64_t w_group : kGroups) {
        HostMxfp4 a = random_mxfp4(m, k, 1, {127}), w = random_mxfp4(n, k, 2, {127});
        group_scales(a, a_group, 3);
        group_scales(w, w_group, 4);
        EmulatedTiles::dots = 0;
        expect_right(a, w);
        if (w_group > 1) {
          if (dots == 0) dots = EmulatedTiles::dots;
          EXPECT_EQ(EmulatedTiles::dots, dots);  // whole tiles of K
        } else {
          EXPECT_GT(EmulatedTiles::dots, dots);
        }
      }
  }
}

// Sums without a float32 step do not depend on how K is cut, and the others are cut by chunks.
TEST_F(AmxEmulated, BlockKChangesNothing) {
  HostMxfp4 a = random_mxfp4(70, 2048 + 96, 1, {120, 121}),
            w = random_mxfp4(70, 2048 + 96, 2, {121, 122});
  for (int round = 0; round < 2; ++round) {
    const std::vector<float> want = run(a, w);
    for (const int block_k : {256, 512}) {
      GuardedOutput c(a.rows, w.rows);
      run_into(a, w, c.view(), {}, block_k);
      EXPECT_EQ(c.take(), want) << block_k;
    }
    a.scale(3, 5) = 140;  // an outlier, and columns that are not whole
    w.scale(40, 5) = 100;
  }
}

// Pairs of panels that are uniform next to some that are not, in every order.
TEST_F(AmxEmulated, UniformAndOtherColumnsSideBySide) {
  const HostMxfp4 a = random_mxfp4(50, 1024, 1, {120, 121});
  for (unsigned pattern = 0; pattern < 16; ++pattern) {
    HostMxfp4 w = random_mxfp4(4 * 32 - 5, 1024, 2, {121, 122});
    for (std::int64_t pair = 0; pair < 4; ++pair)
      if ((pattern >> pair & 1) != 0) w.scale(32 * pair + 7, 20) = 90;
    expect_right(a, w);
  }
}

// What `batch` promises: a row has the same bits alone, and at any place among any others.
TEST_F(AmxEmulated, RowsDoNotDependOnTheirNeighbours) {
  for (const auto& scales :
       {std::vector<int>{120, 121}, {100, 120, 121, 122, 160}, {0, 1, 250, 255}})
    for (const auto& w_scales : {std::vector<int>{121}, {100, 121, 140}}) {
      constexpr std::int64_t kRows = 70, kCols = 45, kK = 1184;
      const HostMxfp4 a = random_mxfp4(kRows, kK, 7, scales),
                      w = random_mxfp4(kCols, kK, 8, w_scales);
      const std::vector<float> all = run(a, w);
      for (const std::int64_t first : {0, 5, 33, 69}) {
        HostMxfp4 row = random_mxfp4(first == 33 ? 20 : 1, kK, 9, {90, 130});
        const std::int64_t at = row.rows - 1;
        for (std::int64_t i = 0; i < kK; ++i) row.set_code(at, i, a.code(first, i));
        for (std::int64_t b = 0; b < scales_per_row(kK); ++b) row.scale(at, b) = a.scale(first, b);
        const std::vector<float> some = run(row, w);
        for (std::int64_t n = 0; n < kCols; ++n)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(some[static_cast<std::size_t>(at * kCols + n)]),
                    std::bit_cast<std::uint32_t>(all[static_cast<std::size_t>(first * kCols + n)]))
              << "row " << first << " column " << n;
      }
    }
}

TEST_F(AmxEmulated, AnyNumberOfTasksGivesTheSameBits) {
  for (const auto& w_scales : {std::vector<int>{121}, {100, 121, 140}}) {
    const HostMxfp4 a = random_mxfp4(300, 640, 7, {100, 120, 121, 122, 160});
    const HostMxfp4 w = random_mxfp4(205, 640, 8, w_scales);
    const std::vector<float> want = run(a, w);
    for (const int threads : {2, 3, 16, 64}) {
      GuardedOutput c(a.rows, w.rows);
      run_into(a, w, c.view(), {}, 1024, threads);
      EXPECT_EQ(c.take(), want) << threads << " threads";
    }
  }
}

TEST(AmxGrid, TasksCoverEverythingOnce) {
  for (const std::int64_t row_tiles : {1, 2, 3, 4, 15, 16, 17, 31, 64, 1000})
    for (const std::int64_t pairs : {1, 2, 7, 90, 128, 2000})
      for (const std::int64_t k_tiles : {1, 24, 64, 4096})
        for (const int threads : {1, 2, 3, 16, 64}) {
          const cpu::AmxGrid grid(row_tiles, pairs, k_tiles, threads);
          ASSERT_EQ(grid.tile_step % 2, 0);
          ASSERT_LE(grid.tile_step, cpu::kMaxRowTiles);
          const std::int64_t col_tasks = grid.num_tasks / grid.row_tasks;
          ASSERT_EQ(grid.num_tasks % grid.row_tasks, 0);
          ASSERT_GE(grid.row_tasks * grid.tile_step, row_tiles);
          ASSERT_LT((grid.row_tasks - 1) * grid.tile_step, row_tiles);
          ASSERT_GE(col_tasks * grid.pair_step, pairs);
          ASSERT_LT((col_tasks - 1) * grid.pair_step, pairs);
        }
}

// Few rows with many outliers leave the tiles, but never under `batch`, whose rows must not care.
TEST_F(AmxEmulated, OnlyRunLeavesTheTiles) {
  const HostMxfp4 many = random_mxfp4(3, 1024, 7, {100, 121}),
                  none = random_mxfp4(3, 1024, 7, {121});
  for (const Reproducible promise : {Reproducible::run, Reproducible::batch})
    for (const HostMxfp4* a : {&many, &none}) {
      RunArgs args;
      const StridedMxfp4 rows(*a, a->rows);
      args.a_mxfp4 = rows.view;
      args.w.k = a->cols;
      args.reproducible = promise;
      KernelWorkspace workspace(cpu::shifted_rows_bytes(a->rows, a->cols));
      const cpu::ShiftedRows shifted = cpu::shifted_rows(workspace.data(), a->rows, a->cols);
      cpu::shift_activations(args, shifted);
      EXPECT_EQ(cpu::is_faster_without_tiles(args, shifted),
                promise == Reproducible::run && a == &many);
    }
}

// C in bf16 or float32, with alpha and bias, at any alignment, from the same sums; nothing else is
// written.
TEST_F(AmxEmulated, EveryEpilogueAndType) {
  for (const auto& scales : {std::vector<int>{120, 121}, {120, 140}, {2, 3}, {240, 250}})
    for (const auto& [m, n] : {std::pair<int, int>{1, 1}, {20, 33}, {40, 70}}) {
      const HostMxfp4 a = random_mxfp4(m, 256, 5, scales), w = random_mxfp4(n, 256, 6, scales);
      const std::vector<float> sums = run(a, w);
      const auto num_cols = static_cast<std::size_t>(n);
      std::vector<float> bias(num_cols);
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.37f * static_cast<float>(i) - 3;
      for (const float alpha : {1.0f, -0.3f})
        for (const bool with_bias : {false, true}) {
          const Epilogue epilogue = {
              alpha, with_bias ? std::span<const float>(bias) : std::span<const float>()};
          const auto expected = [&](std::size_t i) {
            const float b = with_bias ? bias[i % num_cols] : -0.0f;
            const float y = alpha == 1.0f ? sums[i] + b : std::fma(alpha, sums[i], b);
            return y == y ? y : std::bit_cast<float>(formats::kF32NaN);
          };
          GuardedOutput c(m, n);
          run_into(a, w, c.view(), epilogue);
          const std::vector<float> got = c.take();
          constexpr std::uint16_t kPoison = 0xABCD;
          std::vector<std::uint16_t> half(static_cast<std::size_t>(m * (n + 3) + 1), kPoison);
          run_into(a, w, Matrix(half.data() + 1, DType::bf16, m, n, n + 3), epilogue);
          for (int r = 0; r < m; ++r)
            for (int j = 0; j < n + 3; ++j) {
              const auto at = static_cast<std::size_t>(1 + r * (n + 3) + j);
              if (j >= n) {
                ASSERT_EQ(half[at], kPoison);
                continue;
              }
              const auto i = static_cast<std::size_t>(r * n + j);
              ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
                        std::bit_cast<std::uint32_t>(expected(i)));
              ASSERT_EQ(half[at], formats::float_to_bf16(expected(i)));
            }
        }
    }
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
  EXPECT_EQ(EmulatedTiles::dots, uniform_dots);  // A's outliers go another way
  for (std::int64_t r = 0; r < 32; r += 3) w.scale(r, r + 1) = 160;
  EmulatedTiles::dots = 0;
  expect_right(a, w);
  EXPECT_GT(EmulatedTiles::dots, uniform_dots);  // W's take a finer grain
}

}  // namespace
}  // namespace mxgemm
