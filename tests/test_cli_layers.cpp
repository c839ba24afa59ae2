// mxgemm run, verify, inspect and bench: results against the library, and what is refused.
#include <cmath>

#include "cli_testing.h"
#include "oracle.h"

namespace mxgemm::testing {
namespace {

constexpr std::int64_t kM = 5, kN = 24, kK = 96;

class CliLayers : public CliTest {
 protected:
  void SetUp() override {
    weight_ = float_tensor("fc.weight", "BF16", {kN, kK}, 1);
    bias_ = float_tensor("fc.bias", "F32", {kN}, 2);
    experts_ = float_tensor("experts.weight", "F32", {3, kN, kK}, 3);
    expert_bias_ = float_tensor("experts.bias", "BF16", {3, kN}, 4);
    float_ = float_tensor("lm_head.weight", "BF16", {kN, kK}, 5);
    write_checkpoint(path("in.safetensors"), {weight_, bias_, experts_, expert_bias_, float_});
    const Outcome outcome = mxgemm({"quantize", path("in.safetensors"), "-o", file(), "--include",
                                    "(fc|experts|lm_head)\\.weight"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    x_ = float_tensor("x", "F32", {kM, kK}, 6);
    write_npy("x.npy", io::NpyType::f4, {kM, kK}, x_.bytes);
  }

  std::string file() const { return path("model.safetensors"); }
  std::vector<std::string> run_args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"run", file(), "--input", path("x.npy"), "-o", path("y.npy")};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<std::uint8_t> run_layer(const std::vector<std::string>& more) const {
    const Outcome outcome = mxgemm(run_args(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const io::NpyArray y = read_npy("y.npy");
    EXPECT_EQ(y.shape, (std::vector<std::int64_t>{kM, kN}));
    return y.data;
  }

  /// The library's result on the same operands, from cpu_reference: `device` makes it the only one.
  std::vector<std::uint8_t> expected(const Tensor& weight, std::int64_t expert,
                                     const std::vector<float>& bias, const Tensor& x,
                                     DType out = DType::f32, float alpha = 1,
                                     Activation activation = Activation::mxfp4) const {
    HostMxfp4 q = quantized(weight);
    const std::int64_t first = expert * kN;
    const Mxfp4View view = {q.codes.data() + first * codes_per_row_bytes(kK),
                            q.scales.data() + first * scales_per_row(kK),
                            kN,
                            kK,
                            codes_per_row_bytes(kK),
                            scales_per_row(kK)};
    const auto weights = Weights::from_row_major(view);
    EXPECT_OK(weights);
    PlanOptions options;
    options.kernel = "cpu_reference";
    options.activation = activation;
    const auto plan = Plan::create(Device::cpu(), *weights, kM, options);
    EXPECT_OK(plan);
    std::vector<std::uint8_t> y(static_cast<std::size_t>(kM * kN * size_of(out)));
    std::vector<std::byte> workspace(plan->workspace_bytes());
    EXPECT_OK(plan->run(matrix_of(x), Matrix(y.data(), out, kM, kN, kN), workspace,
                        {.alpha = alpha, .bias = bias}));
    return y;
  }
  std::vector<float> floats(const Tensor& tensor, std::int64_t row) const {
    const std::vector<float> all = cli::to_float32(matrix_of(tensor));
    return {all.begin() + row * kN, all.begin() + (row + 1) * kN};
  }

  Tensor weight_, bias_, experts_, expert_bias_, float_, x_;
};

TEST_F(CliLayers, RunGivesTheLibrarysBitsWithBias) {
  const auto want = expected(weight_, 0, floats(bias_, 0), x_);
  EXPECT_EQ(run_layer({"--tensor", "fc", "--reproducible", "device"}), want);
  EXPECT_EQ(run_layer({"--tensor", "fc.weight", "--reproducible", "device", "--threads", "3"}),
            want);
  EXPECT_NE(want, expected(weight_, 0, {}, x_)) << "the bias shows nothing";
}

TEST_F(CliLayers, RunTakesEveryActivationTypeAndWritesBothOutputs) {
  for (const std::string dtype : {"F32", "BF16", "F16"}) {
    const Tensor x = float_tensor("x", dtype, {kM, kK}, 9);
    const auto type = dtype == "F32"    ? io::NpyType::f4
                      : dtype == "BF16" ? io::NpyType::u2
                                        : io::NpyType::f2;
    write_npy("x.npy", type, {kM, kK}, x.bytes);
    for (const auto out : {DType::f32, DType::bf16}) {
      EXPECT_EQ(run_layer({"--tensor", "fc", "--reproducible", "device", "--out",
                           std::string(to_string(out))}),
                expected(weight_, 0, floats(bias_, 0), x, out))
          << dtype;
      EXPECT_EQ(read_npy("y.npy").type, out == DType::f32 ? io::NpyType::f4 : io::NpyType::u2);
    }
  }
}

TEST_F(CliLayers, EveryKernelOfThePromiseGivesTheSameBits) {
  const auto want = expected(weight_, 0, floats(bias_, 0), x_);
  int forced = 0;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu || !kernel.runs_here) continue;
    if (kernel.mxfp4 != Reproducible::device) continue;
    EXPECT_EQ(run_layer({"--tensor", "fc", "--kernel", kernel.name}), want) << kernel.name;
    const Outcome outcome = mxgemm(run_args({"--tensor", "fc", "--kernel", kernel.name}));
    EXPECT_NE(outcome.out.find("kernel " + kernel.name), std::string::npos) << outcome.out;
    ++forced;
  }
  EXPECT_GE(forced, 2);
}

TEST_F(CliLayers, PrequantizedIsTheFusedResult) {
  const std::vector<std::string> fused = {"--tensor",       "fc",    "--alpha", "0.375",
                                          "--reproducible", "device"};
  std::vector<std::string> separate = fused;
  separate.emplace_back("--prequantized");
  const auto want = run_layer(fused);
  EXPECT_EQ(run_layer(separate), want);
  EXPECT_EQ(want, expected(weight_, 0, floats(bias_, 0), x_, DType::f32, 0.375f));
  separate.insert(separate.end(), {"--activation", "none"});
  expect_failure(run_args(separate), 2, "--prequantized");
}

TEST_F(CliLayers, ExpertsAreChosen) {
  for (std::int64_t e = 0; e < 3; ++e) {
    EXPECT_EQ(run_layer({"--tensor", "experts", "--reproducible", "device", "--expert",
                         std::to_string(e)}),
              expected(experts_, e, floats(expert_bias_, e), x_));
  }
  expect_failure(run_args({"--tensor", "experts"}), 2, "--expert");
  expect_failure(run_args({"--tensor", "experts", "--expert", "3"}), 2, "0 to 2");
  expect_failure(run_args({"--tensor", "experts", "--expert", "-1"}), 2, "\"-1\"");
  expect_failure(run_args({"--tensor", "fc", "--expert", "0"}), 2, "[E,N,K]");
}

TEST_F(CliLayers, UnquantizedActivationsAreWithinTheirBound) {
  const Tensor x = float_tensor("x", "BF16", {kM, kK}, 9);
  write_npy("x.npy", io::NpyType::u2, {kM, kK}, x.bytes);
  const auto y = run_layer({"--tensor", "fc", "--activation", "none"});
  cli::Product got{std::vector<float>(kM * kN), kM, kN, ""};
  std::memcpy(got.values.data(), y.data(), y.size());
  const std::vector<float> bias = floats(bias_, 0);
  HostMxfp4 q = quantized(weight_);
  auto want = cli::expected_product(matrix_of(x), q.view(), Activation::none,
                                    ErrorClass::element_accumulating);
  ASSERT_OK(want);
  for (std::size_t i = 0; i < want->exact.size(); ++i) {  // the bias rounds once more
    want->exact[i] += static_cast<double>(bias[i % kN]);
    want->bound[i] += std::fabs(want->exact[i]) * 0x1p-24;
  }
  EXPECT_EQ(cli::exceeds_bound(got, *want), std::nullopt);
  expect_failure(run_args({"--tensor", "fc", "--activation", "none", "--reproducible", "device"}),
                 4, "device");
}

TEST_F(CliLayers, RunRefusesWhatDoesNotFit) {
  expect_failure(run_args({"--tensor", "nope"}), 3, "'nope'");
  expect_failure(run_args({"--tensor", "lm_head"}), 3, "mxgemm quantize");
  expect_failure(run_args({"--tensor", "fc.bias"}), 3, "F32");
  expect_failure(run_args({"--tensor", "fc", "--kernel", "cpu_best"}), 2, "cpu_reference");
  expect_failure({"run", file(), "--tensor", "fc", "--input", path("none.npy"), "-o", path("y")}, 5,
                 "none.npy");
  expect_failure({"run", file(), "--tensor", "fc", "--input", path("x.npy"), "-o", path("no/y")}, 5,
                 "no/y");
  write_npy("x.npy", io::NpyType::f4, {kM, kK - 1}, random_bytes(4 * kM * (kK - 1), 1));
  expect_failure(run_args({"--tensor", "fc"}), 3, "K = 95");
  write_npy("x.npy", io::NpyType::f4, {kK}, random_bytes(4 * kK, 1));
  expect_failure(run_args({"--tensor", "fc"}), 3, "[96]");
  write_npy("x.npy", io::NpyType::i4, {kM, kK}, random_bytes(4 * kM * kK, 1));
  expect_failure(run_args({"--tensor", "fc"}), 3, "float32");
  io_corpus::put(path("x.npy"), "no array");
  expect_failure(run_args({"--tensor", "fc"}), 3, "x.npy");
  EXPECT_FALSE(fs::exists(path("y.npy")));
}

TEST_F(CliLayers, ZeroRowsGiveZeroRows) {
  write_npy("x.npy", io::NpyType::f4, {0, kK}, {});
  const Outcome outcome = mxgemm(run_args({"--tensor", "fc"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_npy("y.npy").shape, (std::vector<std::int64_t>{0, kN}));
}

TEST_F(CliLayers, ABiasOfAnotherLengthIsBadInput) {
  std::vector<Tensor> tensors = mxfp4_pair("fc.weight", quantized(weight_));
  tensors.push_back(float_tensor("fc.bias", "F32", {kN + 1}, 1));
  write_checkpoint(file(), tensors);
  expect_failure(run_args({"--tensor", "fc"}), 3, "'fc.bias'");
}

TEST_F(CliLayers, VerifyPassesAndMeasuresTheDistanceFromFloat) {
  const Outcome outcome = mxgemm({"verify", file(), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const Json report = Json::parse(outcome.out);
  ASSERT_EQ(report["layers"].size(), 2u);
  for (const Json& layer : report["layers"]) {
    EXPECT_GE(layer["bitwise"].size(), 2u);
    EXPECT_GT(layer["sqnr_db"].get<double>(), 10);
    EXPECT_LT(layer["sqnr_db"].get<double>(), 30);
    EXPECT_GT(layer["cosine"].get<double>(), 0.95);
    EXPECT_EQ(layer["rows_checked"], layer["experts"].get<int>() * kN);
  }
  const Json other =
      Json::parse(mxgemm({"verify", file(), "--float", path("in.safetensors"), "--json"}).out);
  // Against the original weights their own error counts too.
  EXPECT_LT(other["layers"][0]["sqnr_db"], report["layers"][0]["sqnr_db"]);
  const Outcome text = mxgemm({"verify", file(), "--m", "3"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("M = 3: every kernel agrees"), std::string::npos) << text.out;
}

TEST_F(CliLayers, VerifyFailsBelowTheWantedDistance) {
  EXPECT_EQ(mxgemm({"verify", file(), "--min-sqnr", "10"}).code, 0);
  const Outcome outcome = mxgemm({"verify", file(), "--min-sqnr", "60"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("BELOW"), std::string::npos);
}

TEST_F(CliLayers, VerifySamplesLargeLayersAndSaysSo) {
  const Tensor w = float_tensor("big.weight", "BF16", {3000, 1024}, 1);
  write_checkpoint(file(), mxfp4_pair("big.weight", quantized(w)));
  const Outcome sampled = mxgemm({"verify", file()});
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_NE(sampled.out.find(" of 3000 rows"), std::string::npos) << sampled.out;
  write_checkpoint(file(), mxfp4_pair("fc.weight", quantized(weight_)));
  EXPECT_NE(mxgemm({"verify", file(), "--all-rows"}).out.find("all 24 rows"), std::string::npos);
}

TEST_F(CliLayers, VerifyOnLayersWithNaNScalesAndShortBlocks) {
  HostMxfp4 q = random_mxfp4(kN, 77, 3, {0, 1, 126, 127, 128, 255});
  write_checkpoint(file(), mxfp4_pair("odd.weight", q), {{"mxgemm.k", R"({"odd.weight":77})"}});
  const Outcome outcome = mxgemm({"verify", file()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(mxgemm({"verify", file(), "--min-sqnr", "0"}).code, 1) << "NaN is not good enough";
}

TEST_F(CliLayers, VerifyRefusesWhatItCannotCompare) {
  expect_failure({"verify", path("in.safetensors")}, 3, "no MXFP4 layer");
  write_checkpoint(path("other.safetensors"), {float_tensor("fc.weight", "F32", {4, 32}, 1)});
  expect_failure({"verify", file(), "--float", path("other.safetensors")}, 3, "[4, 32]");
  write_checkpoint(path("other.safetensors"), {float_tensor("else", "F32", {4, 32}, 1)});
  expect_failure({"verify", file(), "--float", path("other.safetensors")}, 3, "'fc.weight'");
}

TEST_F(CliLayers, TheOracleSeesWrongResults) {
  const HostMxfp4 q = quantized(weight_);
  const auto weights = Weights::from_row_major(q.view());
  ASSERT_OK(weights);
  PlanOptions options;
  options.kernel = "cpu_reference";
  const auto right = cli::compute(*weights, matrix_of(x_), options);
  ASSERT_OK(right);
  const auto bound =
      cli::expected_product(matrix_of(x_), q.view(), Activation::mxfp4, ErrorClass::block_exact);
  ASSERT_OK(bound);
  EXPECT_EQ(cli::differs_in_bits(*right, *right), std::nullopt);
  EXPECT_EQ(cli::exceeds_bound(*right, *bound), std::nullopt);
  cli::Product wrong = *right;
  float& value = wrong.values[2 * kN + 7];
  value = std::nextafter(value, INFINITY);
  const auto place = cli::differs_in_bits(wrong, *right);
  ASSERT_TRUE(place.has_value());
  EXPECT_NE(place->find("C[2, 7]"), std::string::npos) << *place;
  value *= 1.0f + 0x1p-18f;
  EXPECT_TRUE(cli::exceeds_bound(wrong, *bound).has_value());
  value = std::nanf("");
  EXPECT_TRUE(cli::exceeds_bound(wrong, *bound).has_value());
}

TEST_F(CliLayers, InspectTellsLayersScalesAndMetadata) {
  HostMxfp4 q = random_mxfp4(4, 64, 3, {120, 130});
  q.scale(0, 0) = 120, q.scale(0, 1) = 130, q.scale(1, 0) = 255;
  std::vector<Tensor> tensors = mxfp4_pair("fc.weight", q);
  tensors.push_back(float_tensor("bias", "F16", {3}, 1));
  write_checkpoint(file(), tensors, {{"mxgemm.scale_rule", "floor"}, {"evil", "a\x1b[31mb"}});
  const Outcome text = mxgemm({"inspect", file()});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("MXFP4 N=4 K=64, scales 2^-7..2^3, 1 NaN scales"), std::string::npos)
      << text.out;
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "terminal codes go through";
  const Json json = Json::parse(mxgemm({"inspect", file(), "--json"}).out);
  EXPECT_EQ(json["files"][0]["tensors"].size(), 3u);
  EXPECT_EQ(json["files"][0]["metadata"]["mxgemm.scale_rule"], "floor");
  const Json layer = {
      {"name", "fc.weight"},   {"experts", 1},     {"n", 4},           {"k", 64},
      {"scale_rule", "floor"}, {"scale_min", 120}, {"scale_max", 130}, {"nan_scales", 1}};
  EXPECT_EQ(json["layers"][0], layer);
}

TEST_F(CliLayers, PairsThatDoNotFitAreBadInput) {
  const auto bytes = [](std::size_t n) { return random_bytes(n, 1); };
  const std::vector<Tensor> wrong_n = {{"fc.weight", "U8", {4, 16}, bytes(64)},
                                       {"fc.weight_scale", "U8", {5, 1}, bytes(5)}};
  const std::vector<Tensor> wrong_k = {{"fc.weight", "U8", {4, 16}, bytes(64)},
                                       {"fc.weight_scale", "U8", {4, 2}, bytes(8)}};
  for (const auto& tensors : {wrong_n, wrong_k}) {
    write_checkpoint(file(), tensors);
    for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
             {"inspect", file()},
             {"verify", file()},
             {"dequantize", file(), "-o", path("out"), "--dtype", "f32"},
             run_args({"--tensor", "fc"})}) {
      expect_failure(args, 3, "'fc.weight' [4, 16] with scales [");
    }
  }
  const std::vector<Tensor> good = {{"fc.weight", "U8", {4, 16}, bytes(64)},
                                    {"fc.weight_scale", "U8", {4, 1}, bytes(4)}};
  for (const char* k :
       {"{\"fc.weight\":40}", "{\"fc.weight\":-1}", "{\"fc.weight\":\"32\"}", "7"}) {
    write_checkpoint(file(), good, {{"mxgemm.k", k}});
    expect_failure({"inspect", file()}, 3, "'fc.weight'");
  }
  write_checkpoint(file(), good, {{"mxgemm.k", "{\"fc.weight\":31}"}});
  EXPECT_EQ(Json::parse(mxgemm({"inspect", file(), "--json"}).out)["layers"][0]["k"], 31);
}

TEST_F(CliLayers, BenchChecksAndTimesEveryKernelThatRuns) {
  const Outcome outcome = mxgemm({"bench", "3,40,100", "--time", "0", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  ASSERT_EQ(report["shapes"].size(), 1u);
  const Json& shape = report["shapes"][0];
  std::set<std::string> expected, got;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device == DeviceKind::cpu && kernel.runs_here && kernel.mxfp4 &&
        kernel.name != "cpu_reference") {
      expected.insert(kernel.name);
    }
  }
  EXPECT_GT(shape["floor_warm_us"].get<double>(), 0);
  EXPECT_GE(shape["copies"].get<int>(), 2);
  for (const Json& kernel : shape["kernels"]) {
    got.insert(kernel["kernel"]);
    EXPECT_GE(kernel["runs"].get<int>(), 5);
    for (const char* kind : {"warm", "cold"}) {
      EXPECT_GT(kernel[kind]["median_us"].get<double>(), 0);
      EXPECT_LE(kernel[kind]["min_us"], kernel[kind]["median_us"]);
      EXPECT_GT(kernel[kind]["share_of_floor"].get<double>(), 0);
      EXPECT_NEAR(kernel[kind]["gops"].get<double>(),
                  2e-3 * 3 * 40 * 100 / kernel[kind]["median_us"].get<double>(), 1e-6);
    }
  }
  EXPECT_EQ(got, expected);
}

TEST_F(CliLayers, BenchMeasuresNamedKernelsAndCheckpoints) {
  const Json report = Json::parse(mxgemm({"bench", "--checkpoint", file(), "--m", "1", "--m", "4",
                                          "--kernel", "cpu_reference", "--time", "0", "--json"})
                                      .out);
  ASSERT_EQ(report["shapes"].size(), 2u);  // the layers have one size
  EXPECT_EQ(report["shapes"][1]["m"], 4);
  EXPECT_EQ(report["shapes"][1]["n"], kN);
  EXPECT_EQ(report["shapes"][0]["kernels"][0]["kernel"], "cpu_reference");
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu || !kernel.runs_here || !kernel.none) continue;
    const Outcome none = mxgemm(
        {"bench", "2,16,64", "--time", "0", "--activation", "none", "--kernel", kernel.name});
    EXPECT_EQ(none.code, 0) << none.err;
    EXPECT_NE(none.out.find(kernel.name + ", "), std::string::npos) << none.out;
    EXPECT_NE(none.out.find("of floor"), std::string::npos) << none.out;
  }
  expect_failure({"bench", "1,16,32", "--kernel", "cpu_best"}, 2, "\"cpu_best\"");
  expect_failure({"bench", "--checkpoint", path("in.safetensors")}, 3, "no MXFP4 layer");
}

TEST_F(CliLayers, BenchSaysWhatCannotRunHere) {
  const Outcome outcome = mxgemm({"bench", "1,16,32", "--kernel", "cpu_avx2", "--time", "0"},
                                 {"MXGEMM_CPU_ISA=baseline"});
#if defined(__x86_64__)
  EXPECT_EQ(outcome.code, 4) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("cpu_avx2: skipped"), std::string::npos) << outcome.out;
#else
  EXPECT_EQ(outcome.code, 2) << "this build has no such kernel";
#endif
}

}  // namespace
}  // namespace mxgemm::testing
