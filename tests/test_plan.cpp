// Plans: outputs, bias and alpha, W4A16, batch, errors, explain, 64-bit offsets.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "gemm_testing.h"

namespace mxgemm {
namespace {

using namespace testing;

const std::vector<int> kScales = {118, 120, 122, 124, 127};

struct Layer {
  std::int64_t n, k;
  HostMxfp4 w;
  Weights packed;

  Layer(std::int64_t rows, std::int64_t cols, unsigned seed = 7)
      : n(rows),
        k(cols),
        w(random_mxfp4(rows, cols, seed, kScales)),
        packed(make_weights(w, Layout::cpu_panel16)) {}
  Plan plan(std::int64_t m_max, const PlanOptions& options = {}) const {
    Result<Plan> p = Plan::create(Device::cpu(), packed, m_max, options);
    EXPECT_OK(p);
    return *p;
  }
};

TEST(Plan, OutputsBiasAndAlpha) {
  const Layer layer(33, 96);
  const std::int64_t m = 5;
  const auto x = random_bf16(static_cast<std::size_t>(m * layer.k), 1);
  std::vector<float> bias(33);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.37f * static_cast<float>(i) - 3.0f;
  for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4)) {
    const PlanOptions options{.reproducible = *kernel->mxfp4, .kernel = kernel->name};
    const auto sums = run_plan(layer.packed, bf16_view(x, m, layer.k), options);
    for (const float alpha : {1.0f, 0.3f, -2.0f})
      for (const bool with_bias : {false, true}) {
        const Epilogue epilogue{
            alpha, with_bias ? std::span<const float>(bias) : std::span<const float>()};
        const auto c = run_plan(layer.packed, bf16_view(x, m, layer.k), options, epilogue);
        const Plan plan = layer.plan(m, options);
        std::vector<std::byte> workspace(plan.workspace_bytes());
        std::vector<std::uint16_t> c16(static_cast<std::size_t>(m * layer.n));
        ASSERT_OK(
            plan.run(bf16_view(x, m, layer.k),
                     MatrixView<bf16>{reinterpret_cast<bf16*>(c16.data()), m, layer.n, layer.n},
                     workspace, epilogue));
        for (std::size_t i = 0; i < c.size(); ++i) {
          const float want = std::fma(alpha, sums[i], with_bias ? bias[i % 33] : -0.0f);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(c[i]), std::bit_cast<std::uint32_t>(want));
          ASSERT_EQ(c16[i], formats::float_to_bf16(want));
        }
      }
  }
}

TEST(Plan, NanOutputsAreCanonicalInBothTypes) {
  const Layer layer(17, 64);
  std::vector<float> bias(17, 1.0f);
  bias[4] = std::bit_cast<float>(0xFFA12345u);
  auto x = random_bf16(128, 1);
  x[70] = 0xFFC7;
  for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4)) {
    const Plan plan = layer.plan(2, {.kernel = kernel->name});
    std::vector<std::byte> workspace(plan.workspace_bytes());
    std::vector<std::uint16_t> c(34);
    ASSERT_OK(plan.run(bf16_view(x, 2, 64),
                       MatrixView<bf16>{reinterpret_cast<bf16*>(c.data()), 2, 17, 17}, workspace,
                       {1.0f, bias}));
    for (std::size_t i = 0; i < 34; ++i) {
      if (i >= 17 || i == 4)
        EXPECT_EQ(c[i], formats::kBf16NaN);
      else
        EXPECT_LT(c[i] & 0x7FFF, 0x7F80);
    }
  }
}

// |S - exact| of W4A16 in the element-accumulating bound; `extreme` probes both ends of bf16.
void expect_w4a16_is_right(const KernelDesc& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                           bool extreme) {
  const HostMxfp4 w = random_mxfp4(n, k, static_cast<unsigned>(k),
                                   extreme ? std::vector<int>{0, 1, 20, 60} : kScales);
  Rng rng(static_cast<unsigned>(m * n));
  std::vector<std::uint16_t> x =
      random_bf16(static_cast<std::size_t>(m * k), static_cast<unsigned>(n));
  if (extreme)  // any finite bf16: subnormals up to 3e38
    for (std::uint16_t& v : x)
      v = static_cast<std::uint16_t>((rng() % 0x7F80u) | (rng() & 0x8000u));
  const Weights weights = make_weights(w, Layout::cpu_panel16);
  const auto c = run_plan(weights, bf16_view(x, m, k),
                          {.activation = Activation::none, .kernel = kernel.name});
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, p = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product =
            double{formats::bf16_to_float(x[static_cast<std::size_t>(r * k + i)])} *
            std::ldexp(double{formats::e2m1_to_float(w.code(j, i))}, w.scale(j, i / 32) - 127);
        sum += product;
        p += std::fabs(product);
      }
      const double blocks = static_cast<double>(scales_per_row(k));
      const double bound = (static_cast<double>(k) / 16 + blocks) * 0x1p-22 * p + blocks * 0x1p-149;
      ASSERT_LE(std::fabs(double{c[static_cast<std::size_t>(r * n + j)]} - sum), bound)
          << kernel.name << " " << r << " " << j << " k " << k;
    }
}

TEST(W4A16, MeetsTheElementAccumulatingBound) {
  const auto kernels = runnable_kernels(Activation::none);
  ASSERT_GE(kernels.size(), 1u);
  for (const KernelDesc* kernel : kernels)
    for (const std::int64_t k : {1, 31, 33, 100, 256, 784, 2881})
      for (const std::int64_t m : {1, 2, 3, 4, 5, 9})
        for (const bool extreme : {false, true}) expect_w4a16_is_right(*kernel, m, 33, k, extreme);
}

TEST(W4A16, NonFiniteValuesFollowFloatArithmetic) {
  constexpr std::int64_t kK = 45;
  HostMxfp4 w(2, kK);
  w.set_code(0, 3, 2);  // row 0: 1.0 at element 3, zeros elsewhere; row 1: ones
  for (std::int64_t i = 0; i < kK; ++i) w.set_code(1, i, 2);
  std::vector<std::uint16_t> x(kK * 3, 0x3F80);
  x[3] = 0x7F80;           // Inf where W is 1
  x[kK + 4] = 0x7F80;      // Inf where row 0 is 0: NaN there
  x[2 * kK + 3] = 0x7FC1;  // NaN
  for (const KernelDesc* kernel : runnable_kernels(Activation::none)) {
    const auto c = run_plan(make_weights(w, Layout::cpu_panel16), bf16_view(x, 3, kK),
                            {.activation = Activation::none, .kernel = kernel->name});
    EXPECT_EQ(c[0], INFINITY);
    EXPECT_EQ(c[1], INFINITY);
    EXPECT_TRUE(std::isnan(c[2]));
    EXPECT_EQ(c[3], INFINITY);
    EXPECT_TRUE(std::isnan(c[4]) && std::isnan(c[5]));
    w.scale(1, 0) = 255;
    const auto nan = run_plan(make_weights(w, Layout::cpu_panel16), bf16_view(x, 3, kK),
                              {.activation = Activation::none, .kernel = kernel->name});
    EXPECT_TRUE(std::isnan(nan[1]) && std::isnan(nan[3]) && nan[0] == INFINITY);
    w.scale(1, 0) = 127;
  }
}

// `batch`: a row of C has the same bits alone and among others, whatever they hold.
TEST(Plan, RowsDoNotDependOnTheirNeighbours) {
  const Layer layer(48, 544);
  constexpr std::int64_t kM = 33;
  auto x = random_bf16(static_cast<std::size_t>(kM * layer.k), 5);
  for (std::int64_t i = 0; i < layer.k; ++i)  // row 2 is huge, row 3 tiny
    x[static_cast<std::size_t>(2 * layer.k + i)] ^= 0x3F00,
        x[static_cast<std::size_t>(3 * layer.k + i)] &= 0x80FF;
  for (const Activation activation : {Activation::mxfp4, Activation::none})
    for (const KernelDesc* kernel : runnable_kernels(activation)) {
      if (*kernel->promise(activation) < Reproducible::batch) continue;  // it promises less
      const PlanOptions options{
          .activation = activation, .reproducible = Reproducible::batch, .kernel = kernel->name};
      const auto all = bits_of(run_plan(layer.packed, bf16_view(x, kM, layer.k), options));
      for (std::int64_t r = 0; r < kM; ++r) {
        const std::vector<std::uint16_t> row(x.begin() + r * layer.k,
                                             x.begin() + (r + 1) * layer.k);
        ASSERT_EQ(
            bits_of(run_plan(layer.packed, bf16_view(row, 1, layer.k), options)),
            std::vector<std::uint32_t>(all.begin() + r * layer.n, all.begin() + (r + 1) * layer.n))
            << kernel->name << " row " << r;
      }
    }
}

// One numeric path for every M: all buckets of a `batch` plan use kernels with the same bits.
TEST(Plan, BatchPlansUseOnePathForEveryM) {
  const Layer layer(272, 2880);
  for (const Activation activation : {Activation::mxfp4, Activation::none}) {
    const Plan plan =
        layer.plan(300, {.activation = activation, .reproducible = Reproducible::batch});
    const auto ordered = [&](std::int64_t m) {
      return kernel_named(plan.kernel(m)).promise(activation) == Reproducible::device;
    };
    for (std::int64_t m = 1; m <= 300; ++m)
      EXPECT_TRUE(plan.kernel(m) == plan.kernel(300) || (ordered(m) && ordered(300))) << m;
  }
}

TEST(Plan, OnePlanOnManyThreadsAtOnce) {
  const Layer layer(64, 320);
  auto pool = ThreadPool::create(3);
  ASSERT_OK(pool);
  const Plan plan = layer.plan(9, {.reproducible = Reproducible::device, .threads = pool->get()});
  const auto x = random_bf16(static_cast<std::size_t>(9 * layer.k), 2);
  const auto want = bits_of(
      run_plan(layer.packed, bf16_view(x, 9, layer.k), {.reproducible = Reproducible::device}));
  std::vector<std::thread> callers;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      std::vector<std::byte> workspace(plan.workspace_bytes());
      std::vector<float> c(static_cast<std::size_t>(9 * layer.n));
      for (int i = 0; i < 20; ++i) {
        const Status s = plan.run(bf16_view(x, 9, layer.k),
                                  MatrixView<float>{c.data(), 9, layer.n, layer.n}, workspace);
        if (!s.is_ok() || bits_of(c) != want) ++wrong[t];
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// A plan asks for its largest M in each bucket, so a kernel's workspace must grow with M; of every
// kernel, whether this machine can run it or not.
TEST(Plan, WorkspacesGrowWithM) {
  for (const KernelDesc* kernel : registry())
    for (const Config& config : kernel->configs)
      for (const std::int64_t n : {16, 64, 1000})
        for (const std::int64_t k : {256, 512, 4096})
          for (const int threads : {1, 6, 16, 64}) {
            std::size_t before = 0;
            for (std::int64_t m = 1; m <= 40; ++m) {
              const Problem problem{.shape = {m, n, k}, .num_threads = threads};
              const std::size_t bytes = kernel->workspace_bytes(problem, config);
              ASSERT_GE(bytes, before) << kernel->name << " m " << m << " n " << n << " k " << k
                                       << " threads " << threads;
              before = bytes;
            }
          }
}

TEST(Plan, ZeroRowsAreLegalAndWriteNothing) {
  const Layer layer(16, 32);
  for (const std::int64_t m_max : {0, 4}) {
    const Plan plan = layer.plan(m_max);
    EXPECT_OK(plan.run(MatrixView<const bf16>{nullptr, 0, 32, 32},
                       MatrixView<float>{nullptr, 0, 16, 16}, {}));
    EXPECT_EQ(plan.workspace_bytes(0), 0u);
  }
}

TEST(Plan, RefusesWhatCannotWorkAndWritesNothing) {
  const Layer layer(16, 64);
  const auto bad = StatusCode::invalid_argument;
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, -1), bad, "m_max is -1");
  EXPECT_ERROR(Plan::create(Device::cuda(0), layer.packed, 1), StatusCode::unsupported, "cuda");
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, 1, {.kernel = "cpu_magic"}), bad,
               "cpu_magic");
  EXPECT_ERROR(
      Plan::create(Device::cpu(), layer.packed, 1, {.activation_rule = static_cast<ScaleRule>(7)}),
      bad, "scale rule is 7");
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, 1,
                            {.activation = Activation::none, .kernel = "cpu_portable"}),
               StatusCode::unsupported, "does not take activation = none");
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, 1,
                            {.activation = Activation::none, .reproducible = Reproducible::device}),
               StatusCode::unsupported, "reproducible = device");
  const HostMxfp4 m = random_mxfp4(6, 64, 1, kScales);
  Weights::Options experts;
  experts.num_experts = 3;
  EXPECT_ERROR(Plan::create(Device::cpu(), *Weights::from_row_major(m.view(), experts), 1), bad,
               "Weights::slice");

  const Plan plan = layer.plan(4);
  const auto x = random_bf16(4 * 64 + 64, 1);
  std::vector<float> c(4 * 16 + 16, 42.0f);
  std::vector<std::byte> workspace(plan.workspace_bytes() + 64);
  const auto a = bf16_view(x, 4, 64);
  const MatrixView<float> out{c.data(), 4, 16, 16};
  EXPECT_ERROR(plan.run(bf16_view(x, 5, 64), MatrixView<float>{c.data(), 5, 16, 16}, workspace),
               bad, "a.rows is 5");
  EXPECT_ERROR(plan.run(bf16_view(x, 4, 32), out, workspace), bad, "a.cols is 32, must be k = 64");
  EXPECT_ERROR(plan.run(a, MatrixView<float>{c.data(), 3, 16, 16}, workspace), bad, "c.rows is 3");
  EXPECT_ERROR(plan.run(a, MatrixView<float>{c.data(), 4, 15, 16}, workspace), bad, "c.cols is 15");
  EXPECT_ERROR(plan.run(a, MatrixView<float>{c.data(), 4, 16, 15}, workspace), bad,
               "c.row_stride is 15");
  EXPECT_ERROR(plan.run(a, MatrixView<float>{nullptr, 4, 16, 16}, workspace), bad,
               "c.data is null");
  EXPECT_ERROR(plan.run(a, MatrixView<f16>{reinterpret_cast<f16*>(c.data()), 4, 16, 16}, workspace),
               bad, "f16");
  EXPECT_ERROR(plan.run(a, out, std::span(workspace).first(plan.workspace_bytes(4) - 1)), bad,
               "workspace has");
  const std::vector<float> bias(15);
  EXPECT_ERROR(plan.run(a, out, workspace, {1.0f, bias}), bad, "bias has 15");
  const MatrixView<float> on_a{reinterpret_cast<float*>(const_cast<std::uint16_t*>(x.data())), 4,
                               16, 16};
  EXPECT_ERROR(plan.run(a, on_a, workspace), bad, "overlaps a");
  const std::span<std::byte> on_c(reinterpret_cast<std::byte*>(c.data()), 4 * 16 * 4);
  EXPECT_FALSE(plan.run(a, out, on_c).is_ok());
  EXPECT_ERROR(plan.run(a, out, workspace, {1.0f, std::span<const float>(c).first(16)}), bad,
               "bias overlaps c");
  EXPECT_TRUE(std::all_of(c.begin(), c.end(), [](float y) { return y == 42.0f; }));
  EXPECT_OK(plan.run(a, out, workspace));

  const Plan w4a16 = layer.plan(4, {.activation = Activation::none});
  const std::vector<float> x32(4 * 64);
  EXPECT_ERROR(w4a16.run(MatrixView<const float>{x32.data(), 4, 64, 64}, out, workspace), bad,
               "a.dtype is f32");
  const HostMxfp4 q = random_mxfp4(4, 64, 1, kScales);
  EXPECT_ERROR(w4a16.run(q.view(), out, workspace), bad, "a is MXFP4");
}

TEST(Plan, PartialRangesAreChecked) {
  const Layer layer(16, 784);
  const auto bad = StatusCode::invalid_argument;
  const Plan plan = layer.plan(2, {.reproducible = Reproducible::device});
  EXPECT_EQ(*plan.num_partial_nodes({}), 1);  // 4 spans: one node
  EXPECT_EQ(*plan.num_partial_nodes({.k_begin = 256}), 2);
  EXPECT_EQ(*plan.num_partial_nodes({.first_span = 1}), 3);  // spans 1, 2-3, 4
  EXPECT_ERROR(plan.num_partial_nodes({.k_begin = 100}), bad, "multiples of 256");
  EXPECT_ERROR(plan.num_partial_nodes({.k_begin = 0, .k_end = 300}), bad, "multiples of 256");
  EXPECT_ERROR(plan.num_partial_nodes({.k_begin = 512, .k_end = 512}), bad, "a part of 0 to 784");
  EXPECT_ERROR(plan.num_partial_nodes({.k_begin = 0, .k_end = 1024}), bad, "a part of 0 to 784");
  EXPECT_ERROR(plan.num_partial_nodes({.first_span = -1}), bad, "first_span is -1");
  const auto x = random_bf16(2 * 784, 1);
  std::vector<float> sums(3 * 2 * 16);
  std::vector<PartialNode> nodes(3);
  std::vector<std::byte> workspace(plan.workspace_bytes());
  const PartialRange three{.first_span = 1};
  EXPECT_ERROR(
      plan.run_partial(bf16_view(x, 2, 784), three, sums, std::span(nodes).first(2), workspace),
      bad, "nodes has room for 2");
  EXPECT_ERROR(
      plan.run_partial(bf16_view(x, 2, 784), three, std::span(sums).first(95), nodes, workspace),
      bad, "sums has room for 95");
  ASSERT_OK(plan.run_partial(bf16_view(x, 2, 784), three, sums, nodes, workspace));
  std::vector<float> c(32);
  const MatrixView<float> out{c.data(), 2, 16, 16};
  EXPECT_ERROR(combine_partial_nodes(nodes, out), bad, "nodes[0].first_span is 1");
  EXPECT_ERROR(combine_partial_nodes({}, out), bad, "nodes is empty");
  std::vector<PartialNode> odd{{0, 3, sums.data()}};
  EXPECT_ERROR(combine_partial_nodes(odd, out), bad, "power of two");
  const Plan w4a16 = layer.plan(2, {.activation = Activation::none});
  EXPECT_ERROR(w4a16.run_partial(bf16_view(x, 2, 784), {}, sums, nodes, workspace),
               StatusCode::unsupported, "no ordered sum");
}

TEST(Plan, ExplainNamesEveryKernelAndTheEnvironment) {
  const Layer layer(16, 64);
  for (const KernelDesc* kernel : registry())
    EXPECT_NE(layer.plan(8).explain().find(kernel->name), std::string::npos);
  setenv("MXGEMM_KERNEL", "cpu_portable", 1);
  const Plan forced = layer.plan(8);
  setenv("MXGEMM_CPU_ISA", "baseline", 1);
  unsetenv("MXGEMM_KERNEL");
  const Plan capped = layer.plan(8);
  unsetenv("MXGEMM_CPU_ISA");
  EXPECT_EQ(forced.kernel(8), "cpu_portable");
  EXPECT_NE(forced.explain().find("MXGEMM_KERNEL=cpu_portable"), std::string::npos);
  EXPECT_EQ(capped.kernel(1), "cpu_portable");
  EXPECT_NE(capped.explain().find("MXGEMM_CPU_ISA=baseline"), std::string::npos);
  const Result<Plan> unpacked =
      Plan::create(Device::cpu(), make_weights(layer.w, Layout::row_major), 8);
  ASSERT_OK(unpacked);
  if (runnable_kernels(Activation::mxfp4).size() > 2) {  // more than portable and reference
    EXPECT_NE(unpacked->explain(3).find("use Weights::pack"), std::string::npos);
  }
  setenv("MXGEMM_CPU_ISA", "avx9000", 1);
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, 1), StatusCode::invalid_argument,
               "avx9000");
  unsetenv("MXGEMM_CPU_ISA");
  setenv("MXGEMM_KERNEL", "nonsense", 1);
  EXPECT_ERROR(Plan::create(Device::cpu(), layer.packed, 1), StatusCode::invalid_argument,
               "MXGEMM_KERNEL is 'nonsense'");
  unsetenv("MXGEMM_KERNEL");
}

TEST(Plan, WorkspaceIsExactForEveryM) {
  const Layer layer(48, 100);
  const Plan plan = layer.plan(33);
  for (std::int64_t m = 1; m <= 33; ++m)
    EXPECT_LE(plan.workspace_bytes(m - 1), plan.workspace_bytes(m));
  EXPECT_EQ(plan.workspace_bytes(), plan.workspace_bytes(33));
}

// x and y as columns of one buffer, the way fused layers keep them.
TEST(Plan, ColumnsOfOneBufferAreApart) {
  const Layer layer(16, 32);
  constexpr std::int64_t kM = 3, kStride = 32 + 16 + 5;
  std::vector<float> buffer(kM * kStride);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(i % 7) - 3.0f;
  std::vector<float> x(kM * 32);
  for (std::int64_t r = 0; r < kM; ++r)
    std::copy_n(buffer.begin() + r * kStride, 32, x.begin() + r * 32);
  const auto want = run_plan(layer.packed, MatrixView<const float>{x.data(), kM, 32, 32}, {});
  const Plan plan = layer.plan(kM);
  std::vector<std::byte> workspace(plan.workspace_bytes());
  const MatrixView<const float> a{buffer.data(), kM, 32, kStride};
  for (const std::int64_t at : {31, 38})  // one column too early, wrapping into the next row
    EXPECT_ERROR(plan.run(a, MatrixView<float>{buffer.data() + at, kM, 16, kStride}, workspace),
                 StatusCode::invalid_argument, "overlaps a");
  ASSERT_OK(plan.run(a, MatrixView<float>{buffer.data() + 32, kM, 16, kStride}, workspace));
  for (std::int64_t r = 0; r < kM; ++r)
    for (std::int64_t j = 0; j < 16; ++j)
      EXPECT_EQ(buffer[static_cast<std::size_t>(r * kStride + 32 + j)],
                want[static_cast<std::size_t>(r * 16 + j)]);
}

// Rows 5 GB apart: every offset must be 64 bits wide. The memory is mapped, hardly touched.
TEST(Plan, OffsetsBeyondFourGigabytes) {
  constexpr std::int64_t kStride = std::int64_t{5} << 30, kN = 3, kM = 2, kK = 96;
  constexpr std::size_t kBytes = static_cast<std::size_t>(kStride) * 3;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "cannot map 15 GB of address space";
  auto* bytes = static_cast<std::uint8_t*>(map);
  const HostMxfp4 w = random_mxfp4(kN, kK, 1, kScales), a = random_mxfp4(kM, kK, 2, kScales);
  const auto spread = [&](const HostMxfp4& m, std::int64_t at) {
    for (std::int64_t r = 0; r < m.rows; ++r) {
      std::copy_n(m.codes.begin() + r * 48, 48, bytes + r * kStride + at);
      std::copy_n(m.scales.begin() + r * 3, 3, bytes + r * kStride + at + 1000);
    }
    return Mxfp4View{bytes + at, bytes + at + 1000, m.rows, kK, kStride, kStride};
  };
  Weights::Options options;
  options.keep_alive = std::make_shared<int>(0);
  const Weights far_w = *Weights::from_row_major(spread(w, 0), options);
  const Mxfp4View far_a = spread(a, 5000);
  float* c = reinterpret_cast<float*>(bytes + 10000);
  const std::int64_t c_stride = kStride / 4;
  for (const Weights& weights : {far_w, *far_w.to_layout(Layout::cpu_panel16)}) {
    const Plan plan =
        *Plan::create(Device::cpu(), weights, kM, {.reproducible = Reproducible::device});
    std::vector<std::byte> workspace(plan.workspace_bytes());
    ASSERT_OK(plan.run(far_a, MatrixView<float>{c, kM, kN, c_stride}, workspace));
    const auto want = reference(a, w);
    for (std::int64_t r = 0; r < kM; ++r)
      for (std::int64_t j = 0; j < kN; ++j)
        EXPECT_EQ(c[r * c_stride + j], want[static_cast<std::size_t>(r * kN + j)]);
  }
  munmap(map, kBytes);
}

TEST(Device, ParsesAndPrints) {
  EXPECT_EQ(*Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(*Device::parse("cuda"), Device::cuda(0));
  EXPECT_EQ(*Device::parse("hip:3"), Device::hip(3));
  EXPECT_EQ(to_string(Device::cuda(2)), "cuda:2");
  for (const char* text : {"", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "gpu", "cuda:1x"})
    EXPECT_ERROR(Device::parse(text), StatusCode::invalid_argument, "device is '");
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  EXPECT_ERROR(ThreadPool::create(-1), StatusCode::invalid_argument, "num_threads is -1");
  EXPECT_ERROR(ThreadPool::create(5000), StatusCode::invalid_argument, "num_threads is 5000");
  for (int threads = 1; threads <= 8; ++threads) {
    auto pool = ThreadPool::create(threads);
    ASSERT_OK(pool);
    EXPECT_EQ((*pool)->num_threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> hits(static_cast<std::size_t>(count) + 1, 0);
      (*pool)->run(
          count,
          [](void* context, std::int64_t i) noexcept {
            ++(*static_cast<std::vector<int>*>(context))[static_cast<std::size_t>(i)];
          },
          &hits);
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(hits[static_cast<std::size_t>(i)], 1);
      EXPECT_EQ(hits.back(), 0);
    }
  }
}

TEST(Kernels, RegistryEndsWithTheReferenceAndNamesAreUnique) {
  const auto rows = kernels();
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.back().name, "cpu_reference");
  EXPECT_TRUE(rows.back().runs_here);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i].mxfp4 || rows[i].none) << rows[i].name;
    EXPECT_FALSE(registry()[i]->configs.empty() || registry()[i]->layouts.empty());
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(rows[i].name, rows[j].name);
  }
}

}  // namespace
}  // namespace mxgemm
