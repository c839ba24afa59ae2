// The C ABI: the same results and sentences as the C++ API, size-prefixed options, ownership.
#include "mxgemm/c_api.h"

#include <cstdlib>
#include <cstring>

#include "gemm_testing.h"
#include "io_corpus/temp_folder.h"
#include "plan/tuning_text.h"

namespace mxgemm {
namespace {

using namespace testing;

constexpr std::int64_t kM = 5, kN = 33, kK = 544;

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    x_ = random_bf16(static_cast<std::size_t>(kM * kK), 1);
    a_ = {x_.data(), MXGEMM_BF16, kM, kK, kK};
    const mxgemm_mxfp4_view view{w_.codes.data(), w_.scales.data(), kN, kK, kK / 2, kK / 32};
    ASSERT_EQ(mxgemm_weights_from_row_major(&view, nullptr, &weights_), MXGEMM_OK)
        << mxgemm_last_error();
    ASSERT_EQ(mxgemm_weights_pack(weights_, MXGEMM_CPU, 0, nullptr, &packed_), MXGEMM_OK);
  }
  void TearDown() override {
    mxgemm_weights_destroy(weights_);
    mxgemm_weights_destroy(packed_);
  }
  std::vector<float> cpp_result(const Epilogue& epilogue = {}) const {
    return run_plan(make_weights(w_, Layout::cpu_panel16), bf16_view(x_, kM, kK),
                    {.reproducible = Reproducible::device}, epilogue);
  }

  HostMxfp4 w_ = random_mxfp4(kN, kK, 2, {120, 127});
  std::vector<std::uint16_t> x_;
  mxgemm_const_matrix a_{};
  mxgemm_weights* weights_ = nullptr;
  mxgemm_weights* packed_ = nullptr;
};

TEST_F(CApi, RunsLikeTheCppApi) {
  mxgemm_thread_pool* pool = nullptr;
  ASSERT_EQ(mxgemm_thread_pool_create(3, &pool), MXGEMM_OK);
  EXPECT_EQ(mxgemm_thread_pool_num_threads(pool), 3);
  mxgemm_plan_options options = MXGEMM_PLAN_OPTIONS_INIT;
  options.reproducible = MXGEMM_REPRODUCIBLE_DEVICE;
  options.threads = pool;
  mxgemm_plan* plan = nullptr;
  ASSERT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, kM, &options, &plan), MXGEMM_OK)
      << mxgemm_last_error();
  std::vector<std::byte> workspace(mxgemm_plan_workspace_bytes(plan, -1));
  EXPECT_EQ(workspace.size(), mxgemm_plan_workspace_bytes(plan, kM));
  std::vector<float> c(kM * kN), bias(kN, 0.5f);
  const mxgemm_matrix out{c.data(), MXGEMM_F32, kM, kN, kN};
  ASSERT_EQ(mxgemm_plan_run(plan, &a_, &out, workspace.data(), workspace.size(), nullptr, nullptr),
            MXGEMM_OK);
  EXPECT_EQ(bits_of(c), bits_of(cpp_result()));
  mxgemm_epilogue epilogue = MXGEMM_EPILOGUE_INIT;
  epilogue.alpha = 2.0f;
  epilogue.bias = bias.data();
  epilogue.bias_size = kN;
  ASSERT_EQ(
      mxgemm_plan_run(plan, &a_, &out, workspace.data(), workspace.size(), &epilogue, nullptr),
      MXGEMM_OK);
  EXPECT_EQ(bits_of(c), bits_of(cpp_result({2.0f, bias})));

  HostMxfp4 q(kM, kK);
  const mxgemm_mxfp4_buffer buffer{q.codes.data(), q.scales.data(), kM, kK, kK / 2, kK / 32};
  ASSERT_EQ(mxgemm_quantize_activations(MXGEMM_CPU, 0, &a_, &buffer, nullptr, nullptr), MXGEMM_OK);
  const mxgemm_mxfp4_view view{q.codes.data(), q.scales.data(), kM, kK, kK / 2, kK / 32};
  ASSERT_EQ(mxgemm_plan_run_mxfp4(plan, &view, &out, workspace.data(), workspace.size(), nullptr,
                                  nullptr),
            MXGEMM_OK);
  EXPECT_EQ(bits_of(c), bits_of(cpp_result()));

  const mxgemm_partial_range first{0, 256, 0}, rest{256, -1, 0};
  std::vector<float> sums(kM * kN * 3);
  std::vector<mxgemm_partial_node> nodes(3);
  std::int64_t count = 0;
  ASSERT_EQ(mxgemm_plan_num_partial_nodes(plan, &rest, &count), MXGEMM_OK);
  ASSERT_EQ(count, 2);
  ASSERT_EQ(mxgemm_plan_run_partial(plan, &a_, &first, sums.data(), kM * kN, nodes.data(), 1,
                                    workspace.data(), workspace.size(), nullptr),
            MXGEMM_OK);
  ASSERT_EQ(mxgemm_plan_run_partial_mxfp4(plan, &view, &rest, sums.data() + kM * kN, 2 * kM * kN,
                                          nodes.data() + 1, 2, workspace.data(), workspace.size(),
                                          nullptr),
            MXGEMM_OK);
  ASSERT_EQ(mxgemm_combine_partial_nodes(nodes.data(), 3, &out, nullptr), MXGEMM_OK)
      << mxgemm_last_error();
  EXPECT_EQ(bits_of(c), bits_of(cpp_result()));

  char text[64];
  const std::size_t length = mxgemm_plan_explain(plan, text, sizeof text);
  EXPECT_GT(length, sizeof text);
  EXPECT_EQ(std::strlen(text), sizeof text - 1);
  EXPECT_NE(mxgemm_plan_kernel(plan, 1), nullptr);
  mxgemm_plan_destroy(plan);
  mxgemm_thread_pool_destroy(pool);
}

TEST_F(CApi, TuningTablesAreLoadedOrRefused) {
  const io_corpus::TempFolder folder;
  const std::string path = folder / "table";
  const KernelDesc& portable = kernel_named("cpu_portable");
  const std::string device = Tuning::device(Device::cpu());
  const TuningRow row{.device = device,
                      .m_max = kM,
                      .n = kN,
                      .k = kK,
                      .kernel = portable.name,
                      .config = portable.configs.front(),
                      .evidence = {.threads = 1, .us = 1, .date = "2026-12-01"}};
  io_corpus::put(path, tuning_text({&row, 1}, Tuning::build()));
  mxgemm_tuning* tuning = nullptr;
  ASSERT_EQ(mxgemm_tuning_load(path.c_str(), &tuning), MXGEMM_OK) << mxgemm_last_error();
  EXPECT_EQ(mxgemm_tuning_num_rows(tuning), 1);
  mxgemm_plan_options options = MXGEMM_PLAN_OPTIONS_INIT;
  options.tuning = tuning;
  mxgemm_plan* plan = nullptr;
  ASSERT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, kM, &options, &plan), MXGEMM_OK);
  mxgemm_tuning_destroy(tuning);
  EXPECT_STREQ(mxgemm_plan_kernel(plan, kM), "cpu_portable");
  EXPECT_STREQ(mxgemm_plan_warning(plan), "");
  mxgemm_plan_destroy(plan);

  io_corpus::put(path, "no table\n");
  EXPECT_EQ(mxgemm_tuning_load(path.c_str(), &tuning), MXGEMM_BAD_DATA);
  EXPECT_EQ(tuning, nullptr);
  EXPECT_NE(std::strstr(mxgemm_last_error(), "line 1"), nullptr) << mxgemm_last_error();
  EXPECT_EQ(mxgemm_tuning_load(nullptr, &tuning), MXGEMM_INVALID_ARGUMENT);
  mxgemm_tuning_destroy(nullptr);
  setenv("MXGEMM_TUNING", path.c_str(), 1);
  const mxgemm_status created = mxgemm_plan_create(MXGEMM_CPU, 0, packed_, kM, nullptr, &plan);
  unsetenv("MXGEMM_TUNING");
  ASSERT_EQ(created, MXGEMM_OK);
  EXPECT_NE(std::strstr(mxgemm_plan_warning(plan), "MXGEMM_TUNING is ignored"), nullptr);
  mxgemm_plan_destroy(plan);
}

TEST_F(CApi, WeightsInEveryLayoutRoundTrip) {
  EXPECT_EQ(mxgemm_weights_n(packed_), kN);
  EXPECT_EQ(mxgemm_weights_k(packed_), kK);
  EXPECT_EQ(mxgemm_weights_num_experts(packed_), 1);
  EXPECT_EQ(mxgemm_weights_layout(packed_), MXGEMM_CPU_PANEL16);
  EXPECT_STREQ(mxgemm_weights_scale_rule(packed_), "unknown");
  for (const mxgemm_layout layout :
       {MXGEMM_ROW_MAJOR, MXGEMM_AITER_16X16, MXGEMM_GGUF_MXFP4, MXGEMM_CPU_PANEL16}) {
    mxgemm_weights *there = nullptr, *back = nullptr;
    ASSERT_EQ(mxgemm_weights_to_layout(weights_, layout, nullptr, &there), MXGEMM_OK);
    std::int64_t codes_bytes = 0, scales_bytes = 0;
    ASSERT_EQ(mxgemm_layout_bytes(layout, kN, kK, &codes_bytes, &scales_bytes), MXGEMM_OK);
    EXPECT_EQ(mxgemm_weights_bytes(there), codes_bytes + scales_bytes);
    std::size_t codes_size = 0, scales_size = 0;
    const std::uint8_t* codes = mxgemm_weights_codes(there, &codes_size);
    const std::uint8_t* scales = mxgemm_weights_scales(there, &scales_size);
    if (layout == MXGEMM_AITER_16X16) {
      ASSERT_EQ(
          mxgemm_weights_from_aiter(kN, kK, codes, codes_size, scales, scales_size, nullptr, &back),
          MXGEMM_OK);
    } else if (layout == MXGEMM_GGUF_MXFP4) {
      ASSERT_EQ(mxgemm_weights_from_gguf(kN, kK, codes, codes_size, nullptr, &back), MXGEMM_OK);
    } else {
      ASSERT_EQ(mxgemm_weights_slice(there, 0, &back), MXGEMM_OK);
    }
    HostMxfp4 out(kN, kK);
    const mxgemm_mxfp4_buffer buffer{out.codes.data(), out.scales.data(), kN, kK, kK / 2, kK / 32};
    ASSERT_EQ(mxgemm_weights_copy_row_major(back, &buffer, nullptr), MXGEMM_OK);
    EXPECT_EQ(out.codes, w_.codes);
    EXPECT_EQ(out.scales, w_.scales);
    mxgemm_weights_destroy(there);
    mxgemm_weights_destroy(back);
  }
}

TEST_F(CApi, QuantizeAndDequantize) {
  HostMxfp4 got(kM, kK), want(kM, kK);
  mxgemm_quantize_options options = MXGEMM_QUANTIZE_OPTIONS_INIT;
  options.rule = MXGEMM_SCALE_RCEIL;
  const mxgemm_mxfp4_buffer buffer{got.codes.data(), got.scales.data(), kM, kK, kK / 2, kK / 32};
  ASSERT_EQ(mxgemm_quantize(&a_, &buffer, &options), MXGEMM_OK);
  ASSERT_OK(quantize(bf16_view(x_, kM, kK), want.buffer(), {.rule = ScaleRule::rceil}));
  EXPECT_EQ(got.codes, want.codes);
  EXPECT_EQ(got.scales, want.scales);
  std::vector<float> values(kM * kK);
  const mxgemm_mxfp4_view view{got.codes.data(), got.scales.data(), kM, kK, kK / 2, kK / 32};
  const mxgemm_matrix out{values.data(), MXGEMM_F32, kM, kK, kK};
  ASSERT_EQ(mxgemm_dequantize(&view, &out, nullptr), MXGEMM_OK);
  EXPECT_EQ(values[0],
            formats::e8m0_to_float(got.scales[0]) * formats::e2m1_to_float(got.code(0, 0)));
  mxgemm_weights* quantized = nullptr;
  ASSERT_EQ(mxgemm_weights_quantize(&a_, &options, 1, &quantized), MXGEMM_OK);
  EXPECT_STREQ(mxgemm_weights_scale_rule(quantized), "rceil");
  mxgemm_weights_destroy(quantized);
}

TEST_F(CApi, BorrowedBytesAreReleasedOnceAndNotOnFailure) {
  int released = 0;
  mxgemm_weights_options options = MXGEMM_WEIGHTS_OPTIONS_INIT;
  options.release = [](void* arg) { ++*static_cast<int*>(arg); };
  options.release_arg = &released;
  options.scale_rule = "other(mlx)";
  mxgemm_mxfp4_view view{w_.codes.data(), w_.scales.data(), kN, kK, kK / 2, kK / 32};
  mxgemm_weights *w = nullptr, *slice = nullptr;
  ASSERT_EQ(mxgemm_weights_from_row_major(&view, &options, &w), MXGEMM_OK);
  std::size_t size = 0;
  EXPECT_EQ(mxgemm_weights_codes(w, &size), w_.codes.data());
  EXPECT_STREQ(mxgemm_weights_scale_rule(w), "other(mlx)");
  ASSERT_EQ(mxgemm_weights_slice(w, 0, &slice), MXGEMM_OK);
  mxgemm_weights_destroy(w);
  EXPECT_EQ(released, 0);
  mxgemm_weights_destroy(slice);
  EXPECT_EQ(released, 1);
  view.codes = nullptr;
  EXPECT_EQ(mxgemm_weights_from_row_major(&view, &options, &w), MXGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(w, nullptr);
  EXPECT_EQ(released, 1);
}

TEST_F(CApi, ErrorsCarryTheirSentence) {
  mxgemm_plan* plan = nullptr;
  mxgemm_plan_options options = MXGEMM_PLAN_OPTIONS_INIT;
  options.kernel = "cpu_magic";
  EXPECT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, 1, &options, &plan),
            MXGEMM_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(mxgemm_last_error(), "cpu_magic"), nullptr);
  EXPECT_EQ(mxgemm_plan_create(MXGEMM_CUDA, 1, packed_, 1, nullptr, &plan), MXGEMM_UNSUPPORTED);
  EXPECT_NE(std::strstr(mxgemm_last_error(), "cuda:1"), nullptr);
  options.struct_size = 0;
  EXPECT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, 1, &options, &plan),
            MXGEMM_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(mxgemm_last_error(), "struct_size is 0"), nullptr);
  EXPECT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, nullptr, 1, nullptr, &plan), MXGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(mxgemm_plan_run(nullptr, &a_, nullptr, nullptr, 0, nullptr, nullptr),
            MXGEMM_INVALID_ARGUMENT);
  mxgemm_thread_pool* pool = nullptr;
  EXPECT_EQ(mxgemm_thread_pool_create(-3, &pool), MXGEMM_INVALID_ARGUMENT);
  mxgemm_weights_destroy(nullptr);
  mxgemm_plan_destroy(nullptr);
  mxgemm_thread_pool_destroy(nullptr);
}

// A caller built against a later version, whose struct is longer: fine as long as it asks for
// nothing that this library does not know.
TEST_F(CApi, NewerStructsAreLonger) {
  struct {
    mxgemm_plan_options known = MXGEMM_PLAN_OPTIONS_INIT;
    std::uint64_t later = 0;  // as wide as the alignment: padding would have any bytes
  } options;
  options.known.struct_size = sizeof options;
  mxgemm_plan* plan = nullptr;
  ASSERT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, 1, &options.known, &plan), MXGEMM_OK)
      << mxgemm_last_error();
  mxgemm_plan_destroy(plan);
  options.later = 1;
  EXPECT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, 1, &options.known, &plan),
            MXGEMM_UNSUPPORTED);
  for (const std::size_t size : {std::size_t{9}, offsetof(mxgemm_plan_options, kernel) + 4}) {
    options.known.struct_size = size;
    EXPECT_EQ(mxgemm_plan_create(MXGEMM_CPU, 0, packed_, 1, &options.known, &plan),
              MXGEMM_INVALID_ARGUMENT);
  }
}

TEST(CApiInfo, VersionAndKernels) {
  EXPECT_STREQ(mxgemm_version(), MXGEMM_VERSION);
  std::vector<std::string> names;
  for (int i = 0; mxgemm_kernel_name(i) != nullptr; ++i) {
    names.emplace_back(mxgemm_kernel_name(i));
    EXPECT_EQ(mxgemm_kernel_runs_here(i) == 1, kernels()[static_cast<std::size_t>(i)].runs_here);
  }
  EXPECT_EQ(names.size(), kernels().size());
  EXPECT_EQ(names.back(), "cpu_reference");
  EXPECT_EQ(mxgemm_kernel_name(-1), nullptr);
  EXPECT_EQ(mxgemm_kernel_runs_here(999), 0);
}

}  // namespace
}  // namespace mxgemm
