// mxgemm quantize and dequantize on single files: the bytes written, what is left alone, what is
// refused, and what an interruption leaves behind.
#include <cmath>
#include <csignal>
#include <thread>

#include "cli_testing.h"
#include "mxgemm/version.h"

namespace mxgemm::testing {
namespace {

class CliQuantize : public CliTest {
 protected:
  std::vector<std::string> quantize_args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"quantize", path("in.safetensors"), "-o",
                                     path("out.safetensors")};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Outcome quantize_file(const std::vector<std::string>& more = {}) const {
    const Outcome outcome = mxgemm(quantize_args(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
  void expect_pair(const std::string& file, const std::string& name, const HostMxfp4& q) const {
    const io::SafetensorsFile out = open(file);
    EXPECT_EQ(data_of(out, name), q.codes) << name;
    EXPECT_EQ(data_of(out, name + "_scale"), q.scales) << name;
  }
};

TEST_F(CliQuantize, BytesAreTheLibrarysForEveryDtypeRuleAndPolicy) {
  for (const std::string dtype : {"BF16", "F16", "F32"}) {
    Tensor w = float_tensor("fc.weight", dtype, {37, 96}, 11);
    if (dtype == "F32") {  // a NaN and an infinity, in blocks of their own
      const float values[] = {std::nanf(""), INFINITY};
      std::memcpy(w.bytes.data() + 4 * 40, &values[0], 4);
      std::memcpy(w.bytes.data() + 4 * 96 * 3, &values[1], 4);
    }
    write_checkpoint(path("in.safetensors"), {w});
    for (const auto rule : {ScaleRule::even, ScaleRule::floor, ScaleRule::rceil, ScaleRule::ceil}) {
      for (const auto policy : {NonFinite::propagate, NonFinite::saturate}) {
        SCOPED_TRACE(dtype + " " + std::string(to_string(rule)));
        quantize_file({"--force", "--rule", std::string(to_string(rule)), "--non-finite",
                       std::string(to_string(policy))});
        expect_pair("out.safetensors", "fc.weight",
                    quantized(w, {.rule = rule, .non_finite = policy}));
        EXPECT_EQ(open("out.safetensors").metadata().at("mxgemm.scale_rule"), to_string(rule));
      }
    }
  }
}

TEST_F(CliQuantize, SelectsMatricesNamedWeightAndLeavesTheRestAsItWas) {
  const Tensor ids = {"ids", "I64", {3}, random_bytes(24, 5)};
  const Tensor fp8 = {"fp8.weight", "F8_E4M3", {2, 32}, random_bytes(64, 6)};
  const std::vector<Tensor> tensors = {float_tensor("a.weight", "BF16", {16, 64}, 1),
                                       float_tensor("a.bias", "BF16", {16}, 2),
                                       float_tensor("embed_tokens.weight", "F32", {8, 32}, 3),
                                       float_tensor("lm_head.weight", "F16", {8, 32}, 4),
                                       float_tensor("final_norm.weight", "F32", {4, 32}, 5),
                                       float_tensor("conv.weight", "F32", {4, 2, 1, 32}, 6),
                                       float_tensor("odd.weight", "F32", {4, 45}, 7),
                                       float_tensor("weights", "F32", {4, 32}, 8),
                                       float_tensor("weight", "F32", {4, 32}, 9),
                                       ids,
                                       fp8};
  write_checkpoint(path("in.safetensors"), tensors, {{"format", "pt"}});
  const Outcome outcome = quantize_file();
  const io::SafetensorsFile out = open("out.safetensors");
  std::vector<std::string> names;
  for (const auto& t : out.tensors()) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "a.weight", "a.weight_scale", "a.bias", "embed_tokens.weight",
                       "lm_head.weight", "final_norm.weight", "conv.weight", "odd.weight",
                       "weights", "weight", "weight_scale", "ids", "fp8.weight"}));
  for (const Tensor& tensor : tensors) {
    if (tensor.name == "a.weight" || tensor.name == "weight") {
      expect_pair("out.safetensors", tensor.name, quantized(tensor));
      continue;
    }
    EXPECT_EQ(data_of(out, tensor.name), tensor.bytes) << tensor.name;
    EXPECT_EQ(out.find(tensor.name)->dtype, tensor.dtype);
    EXPECT_EQ(out.find(tensor.name)->shape, tensor.shape);
  }
  EXPECT_EQ(out.find("a.weight")->shape, (std::vector<std::int64_t>{16, 32}));
  EXPECT_EQ(out.find("a.weight_scale")->shape, (std::vector<std::int64_t>{16, 2}));
  for (const char* kept : {"embed_tokens.weight", "lm_head.weight", "final_norm.weight"}) {
    EXPECT_NE(outcome.out.find(std::string(kept) + " stays float: its name matches"),
              std::string::npos)
        << outcome.out;
  }
  EXPECT_NE(outcome.out.find("odd.weight stays float: K = 45 is not a multiple of 32"),
            std::string::npos)
      << outcome.out;
  const io::Metadata& metadata = out.metadata();
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("mxgemm.version"), MXGEMM_VERSION);
  EXPECT_EQ(metadata.at("mxgemm.scale_rule"), "even");
  EXPECT_EQ(metadata.at("mxgemm.rounding"), "half_even");
  EXPECT_EQ(metadata.at("mxgemm.non_finite"), "propagate");
  EXPECT_EQ(Json::parse(metadata.at("mxgemm.k")), (Json{{"a.weight", 64}, {"weight", 32}}));
}

TEST_F(CliQuantize, PatternsIncludeAndExclude) {
  write_checkpoint(path("in.safetensors"), {float_tensor("up.weight", "F32", {4, 32}, 1),
                                            float_tensor("down.weight", "F32", {4, 32}, 2),
                                            float_tensor("lm_head.weight", "F32", {4, 32}, 3),
                                            float_tensor("experts.up", "F32", {2, 4, 32}, 4)});
  const auto quantized_names = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = more;
    args.insert(args.end(), {"--force", "--json"});
    std::vector<std::string> names;
    const Json report = Json::parse(quantize_file(args).out);
    for (const Json& t : report["quantized"]) names.push_back(t["name"]);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(quantized_names({}), (Names{"up.weight", "down.weight"}));
  EXPECT_EQ(quantized_names({"--exclude", "^down"}), (Names{"up.weight"}));
  EXPECT_EQ(quantized_names({"--include", "^up\\.", "--include", "experts"}),
            (Names{"up.weight", "experts.up"}));
  EXPECT_EQ(quantized_names({"--include", "head|up"}), (Names{"up.weight", "experts.up"}));
  EXPECT_EQ(quantized_names({"--include", "head", "--no-default-exclude"}),
            (Names{"lm_head.weight"}));
  const Tensor experts = float_tensor("experts.up", "F32", {2, 4, 32}, 4);
  quantize_file({"--force", "--include", "experts"});
  expect_pair("out.safetensors", "experts.up", quantized(experts));
  EXPECT_EQ(open("out.safetensors").find("experts.up_scale")->shape,
            (std::vector<std::int64_t>{2, 4, 1}));
}

TEST_F(CliQuantize, ShortBlocksAndOddKRoundTripThroughTheMetadata) {
  for (const std::int64_t k : {1, 31, 33, 45, 100}) {
    const Tensor w = float_tensor("fc.weight", "BF16", {5, k}, 21);
    write_checkpoint(path("in.safetensors"), {w, float_tensor("fc.bias", "F32", {5}, 1)});
    quantize_file({"--short-block", "--force"});
    const HostMxfp4 q = quantized(w);
    expect_pair("out.safetensors", "fc.weight", q);
    for (const auto dtype : {DType::f32, DType::bf16}) {
      const Outcome outcome =
          mxgemm({"dequantize", path("out.safetensors"), "-o", path("back.safetensors"), "--force",
                  "--dtype", std::string(to_string(dtype))});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      std::vector<std::uint8_t> expected(static_cast<std::size_t>(5 * k * size_of(dtype)));
      ASSERT_OK(dequantize(q.view(), Matrix(expected.data(), dtype, 5, k, k)));
      const io::SafetensorsFile back = open("back.safetensors");
      EXPECT_EQ(back.find("fc.weight")->shape, (std::vector<std::int64_t>{5, k}));
      EXPECT_EQ(data_of(back, "fc.weight"), expected);
      EXPECT_EQ(back.tensors().size(), 2u);
      EXPECT_TRUE(back.metadata().empty());
    }
  }
}

TEST_F(CliQuantize, QuantizingTheDequantizedGivesTheSameFile) {
  write_checkpoint(path("in.safetensors"), {float_tensor("fc.weight", "F32", {64, 320}, 3)});
  quantize_file();
  ASSERT_EQ(mxgemm({"dequantize", path("out.safetensors"), "-o", path("back.safetensors"),
                    "--dtype", "bf16"})
                .code,
            0);
  ASSERT_EQ(mxgemm({"quantize", path("back.safetensors"), "-o", path("again.safetensors")}).code,
            0);
  EXPECT_EQ(io_corpus::get(path("out.safetensors")), io_corpus::get(path("again.safetensors")));
}

TEST_F(CliQuantize, ThreadsDoNotChangeTheFile) {
  // More rows than one batch of tasks has, and a K that fills no task evenly.
  write_checkpoint(path("in.safetensors"), {float_tensor("fc.weight", "BF16", {3001, 1056}, 3)});
  const std::string one = quantize_file({"--threads", "1", "--json"}).out;
  const std::string file = io_corpus::get(path("out.safetensors"));
  const std::string three = quantize_file({"--threads", "3", "--json", "--force"}).out;
  EXPECT_EQ(file, io_corpus::get(path("out.safetensors")));
  EXPECT_EQ(Json::parse(one)["quantized"], Json::parse(three)["quantized"]);
}

TEST_F(CliQuantize, StatisticsAreThoseOfTheBytes) {
  for (const std::string dtype : {"BF16", "F16", "F32"}) {
    Tensor w = float_tensor("fc.weight", dtype, {9, 75}, 5);
    const std::size_t size = dtype == "F32" ? 4 : 2;
    std::memset(w.bytes.data(), 0, 32 * size);  // one block of zeros
    write_checkpoint(path("in.safetensors"), {w});
    const Json report =
        Json::parse(quantize_file({"--short-block", "--json", "--force"}).out)["quantized"][0];
    const HostMxfp4 q = quantized(w);
    double signal = 0, noise = 0, clipped = 0, zeroed = 0;
    int scale_min = 256, scale_max = -1;
    for (std::int64_t r = 0; r < 9; ++r) {
      for (std::int64_t c = 0; c < 75; ++c) {
        float x = 0;
        std::uint16_t half = 0;
        const std::uint8_t* at = w.bytes.data() + static_cast<std::size_t>(r * 75 + c) * size;
        if (size == 4) {
          std::memcpy(&x, at, 4);
        } else {
          std::memcpy(&half, at, 2);
          x = dtype == "BF16" ? formats::bf16_to_float(half) : formats::f16_to_float(half);
        }
        const std::uint8_t b = q.scale(r, c / 32);
        const double scale = std::ldexp(1.0, b - 127);
        const double value = static_cast<double>(formats::e2m1_to_float(q.code(r, c))) * scale;
        signal += static_cast<double>(x) * static_cast<double>(x);
        noise += (static_cast<double>(x) - value) * (static_cast<double>(x) - value);
        clipped += std::fabs(static_cast<double>(x)) > 6 * scale;
        zeroed += x != 0 && value == 0;
        if (r > 0 || c >= 32) {
          scale_min = std::min<int>(scale_min, b);
          scale_max = std::max<int>(scale_max, b);
        }
      }
    }
    EXPECT_NEAR(report["sqnr_db"].get<double>(), 10 * std::log10(signal / noise), 1e-4) << dtype;
    EXPECT_GT(clipped, 0) << dtype << ": the case shows nothing";
    EXPECT_GT(zeroed, 0) << dtype << ": the case shows nothing";
    EXPECT_DOUBLE_EQ(report["clipped"].get<double>(), clipped / (9 * 75)) << dtype;
    EXPECT_DOUBLE_EQ(report["zeroed"].get<double>(), zeroed / (9 * 75)) << dtype;
    EXPECT_EQ(report["scale_min"], scale_min);
    EXPECT_EQ(report["scale_max"], scale_max);
  }
}

TEST_F(CliQuantize, StatisticsSurviveExtremes) {
  std::vector<float> values(4 * 32, 0.0f);
  values[0] = 3e38f;           // its square is no float
  values[32] = 1e-42f;         // subnormal
  values[64] = std::nanf("");  // alone in its block
  values[96] = INFINITY, values[97] = -1.0f;
  write_checkpoint(path("in.safetensors"), {{"weight", "F32", {4, 32}, bytes_of(values)}});
  const Json nan = Json::parse(quantize_file({"--json"}).out)["quantized"][0];
  EXPECT_EQ(nan["non_finite"], 2);
  EXPECT_EQ(nan["nan_blocks"], 2);
  EXPECT_GT(nan["sqnr_db"].get<double>(), 10);
  const Json saturated =
      Json::parse(quantize_file({"--json", "--force", "--non-finite", "saturate"}).out);
  EXPECT_EQ(saturated["quantized"][0]["non_finite"], 2);
  EXPECT_EQ(saturated["quantized"][0]["nan_blocks"], 0);
  std::fill(values.begin(), values.end(), 0.0f);
  write_checkpoint(path("in.safetensors"), {{"weight", "F32", {4, 32}, bytes_of(values)}});
  const Json zeros = Json::parse(quantize_file({"--json", "--force"}).out)["quantized"][0];
  EXPECT_TRUE(zeros["sqnr_db"].is_null());
  EXPECT_TRUE(zeros["scale_min"].is_null());
}

TEST_F(CliQuantize, WhatCannotBeQuantizedIsRefused) {
  const Tensor w = float_tensor("fc.weight", "F32", {4, 32}, 1);
  write_checkpoint(path("in.safetensors"), mxfp4_pair("fc.weight", quantized(w)));
  expect_failure(quantize_args(), 3, "already quantized");
  write_checkpoint(path("in.safetensors"),
                   {w, {"fc.weight_scale", "F32", {1}, random_bytes(4, 1)}});
  expect_failure(quantize_args(), 3, "'fc.weight_scale' is taken");
  write_checkpoint(path("in.safetensors"), {float_tensor("fc.bias", "F32", {32}, 1)});
  expect_failure(quantize_args(), 3, "no tensor is to be quantized");
  write_checkpoint(path("in.safetensors"), {float_tensor("fc.weight", "F32", {2, 45}, 1)});
  expect_failure(quantize_args(), 3, "K = 45");
  expect_failure(quantize_args({"--include", "(unclosed"}), 2, "\"(unclosed\"");
  expect_failure(
      {"dequantize", path("in.safetensors"), "-o", path("out.safetensors"), "--dtype", "f32"}, 3,
      "no MXFP4 layer");
  EXPECT_EQ(folder_.names(), std::set<std::string>{"in.safetensors"});
}

TEST_F(CliQuantize, OutputsThatWouldDestroySomethingAreRefused) {
  write_checkpoint(path("in.safetensors"), {float_tensor("weight", "F32", {4, 32}, 1)});
  const std::string in = path("in.safetensors"), before = io_corpus::get(in);
  expect_failure({"quantize", in, "-o", in, "--force"}, 2, "is the input itself");
  fs::create_symlink(in, path("link.safetensors"));
  expect_failure({"quantize", in, "-o", path("link.safetensors"), "--force"}, 2, "input itself");
  fs::create_hard_link(in, path("hard.safetensors"));
  expect_failure({"quantize", in, "-o", path("hard.safetensors"), "--force"}, 2, "input itself");
  expect_failure({"quantize", in, "-o", path("none/out.safetensors")}, 5, "none");
  fs::create_directory(path("folder"));
  expect_failure({"quantize", in, "-o", path("folder"), "--force"}, 2, "is a folder");
  io_corpus::put(path("out.safetensors"), "mine");
  expect_failure(quantize_args(), 2, "--force");
  EXPECT_EQ(io_corpus::get(path("out.safetensors")), "mine");
  quantize_file({"--force"});
  EXPECT_NE(io_corpus::get(path("out.safetensors")), "mine");
  EXPECT_EQ(io_corpus::get(in), before);
}

/// Waits until the command has begun to write, at most ten seconds.
bool wait_for_more_files(const io_corpus::TempFolder& folder, std::size_t count) {
  for (int i = 0; i < 10'000; ++i) {
    if (folder.names().size() > count) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST_F(CliQuantize, AnInterruptionLeavesNoHalfFile) {
  std::vector<Tensor> tensors;
  const Tensor w = float_tensor("weight", "BF16", {2048, 2048}, 1);
  for (int i = 0; i < 24; ++i) {
    tensors.push_back(w);
    tensors.back().name = "layer" + std::to_string(i) + ".weight";
  }
  write_checkpoint(path("in.safetensors"), tensors);
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    Outcome outcome;
    for (int attempt = 0; attempt < 5; ++attempt) {  // a busy machine may deliver it too late
      fs::remove(path("out.safetensors"));
      const pid_t pid = start(quantize_args({"--threads", "1"}));
      // .out, .err and the input are there; a fourth name is the temporary file.
      ASSERT_TRUE(wait_for_more_files(folder_, 3));
      kill(pid, signal);
      outcome = wait(pid);
      if (outcome.code != 0) break;
    }
    ASSERT_NE(outcome.code, 0) << "it was always done before the signal came";
    EXPECT_FALSE(fs::exists(path("out.safetensors")));
    if (signal == SIGKILL) {
      EXPECT_EQ(outcome.code, -SIGKILL);
    } else {
      EXPECT_EQ(outcome.code, 128 + signal);
      EXPECT_NE(outcome.err.find("interrupted"), std::string::npos) << outcome.err;
      EXPECT_EQ(folder_.names(), std::set<std::string>{"in.safetensors"});
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(CliQuantize, MemoryFollowsTheLargestTensorNotTheCheckpoint) {
  const Tensor w = float_tensor("weight", "BF16", {2048, 2048}, 1);  // 8 MB
  std::vector<io::TensorSpec> specs;
  for (int i = 0; i < 40; ++i) {
    specs.push_back({"layer" + std::to_string(i) + ".weight", w.dtype, w.shape});
  }
  auto writer = io::SafetensorsWriter::create(path("in.safetensors"), specs, {});
  ASSERT_OK(writer);
  for (std::size_t i = 0; i < specs.size(); ++i) ASSERT_OK(writer->write(w.bytes));
  ASSERT_OK(writer->commit());
  const pid_t pid = start(quantize_args());
  const long peak_kb = watch_peak_memory(pid);
  EXPECT_EQ(wait(pid).code, 0);
  EXPECT_GT(peak_kb, 1024) << "nothing was seen";
  EXPECT_LT(peak_kb, 64 * 1024) << "of a checkpoint of 320 MB";
}
#endif

}  // namespace
}  // namespace mxgemm::testing
