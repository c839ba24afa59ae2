// mxgemm bench: lists of M and threads, kinds of activations, other libraries, the roofs, the plot.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "baseline.h"
#include "bench_check.h"
#include "cli_testing.h"
#include "distributions.h"
#include "oracle.h"

namespace mxgemm::testing {
namespace {

using cli::Bf16Matrix;

constexpr std::uint64_t kSeed = 7;

class CliBench : public CliTest {
 protected:
  /// What is measured, as JSON; --time 0 is the least number of runs.
  Json bench(std::vector<std::string> args) const {
    args.insert(args.begin(), "bench");
    args.insert(args.end(), {"--time", "0", "--json"});
    const Outcome outcome = mxgemm(args);
    EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json{{"shapes", Json::array()}};
  }
  std::set<std::string> built() const {
    return Json::parse(mxgemm({"info", "--json"}).out)["baselines"].get<std::set<std::string>>();
  }
};

TEST_F(CliBench, ListsOfRowsAndThreads) {
  const Json report = bench({"9,40,100", "2,48,64", "--m", "1,5", "--m", "3", "--threads", "1,2",
                             "--kernel", "cpu_portable"});
  EXPECT_EQ(report["threads"], Json({1, 2}));
  std::vector<std::vector<int>> got, want;
  for (const Json& shape : report["shapes"]) {
    got.push_back({shape["n"], shape["m"], shape["threads"]});
    const Json& kernel = shape["kernels"][0];
    for (const char* kind : {"warm", "cold"}) {
      const Json& figures = kernel[kind];
      EXPECT_GT(figures["scaling"].get<double>(), 0);
      if (shape["threads"] == 1) {
        EXPECT_EQ(figures["scaling"], 1);
      }
      EXPECT_GE(figures["share_of_roof"], figures["share_of_floor"]);
    }
    const double operations =
        2.0 * shape["m"].get<double>() * shape["n"].get<double>() * shape["k"].get<double>();
    EXPECT_NEAR(shape["compute_us"].get<double>() * shape["peak_gops"].get<double>() * 1e3,
                shape["peak_gops"] > 0 ? operations : 0.0, 1e-6 * operations);
    EXPECT_EQ(shape["peak_gops"] > 0, report["peak_instruction"] != "");
  }
  for (const int n : {40, 48}) {
    for (const int m : {1, 5, 3}) {
      for (const int threads : {1, 2}) want.push_back({n, m, threads});
    }
  }
  EXPECT_EQ(got, want);
  for (const char* option : {"--m", "--threads"}) {
    expect_failure({"bench", "1,16,32", option, "1,x"}, 2, "\"x\"");
    expect_failure({"bench", "1,16,32", option, "-1"}, 2, "\"-1\"");
  }
  expect_failure({"bench", "1,16,32", "--m", "0"}, 2, "\"0\"");
}

TEST_F(CliBench, EveryKindOfActivationsIsChecked) {
  const Json report = bench({"5,48,160", "--scales", "all", "--threads", "1"});
  std::vector<std::string> got, want;
  for (const Json& shape : report["shapes"]) {
    got.push_back(shape["scales"]);
    EXPECT_EQ(shape["checked"], Json({5, 48}));
  }
  for (const auto& distribution : cli::distributions()) want.emplace_back(distribution.name);
  EXPECT_EQ(got, want);
  expect_failure({"bench", "1,16,32", "--scales", "normal"}, 2,
                 "--scales is \"normal\", must be gaussian");
  const std::string page = io_corpus::get(MXGEMM_DOCS "/cli.md");
  const std::string help = mxgemm({"bench", "--help"}).out;
  for (const std::string& name : want) {
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " is not documented";
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

Bf16Matrix draw(const char* name, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const auto distribution = cli::find_distribution(name);
  EXPECT_OK(distribution);
  return cli::random_activations(rows, cols, seed, **distribution);
}

double value(const Bf16Matrix& a, std::int64_t row, std::int64_t col) {
  return formats::bf16_to_float(a.values[static_cast<std::size_t>(row * a.cols + col)].bits);
}

/// Root mean square of every column.
std::vector<double> channel_sizes(const Bf16Matrix& a) {
  std::vector<double> sizes;
  for (std::int64_t col = 0; col < a.cols; ++col) {
    double sum = 0;
    for (std::int64_t row = 0; row < a.rows; ++row) sum += value(a, row, col) * value(a, row, col);
    sizes.push_back(std::sqrt(sum / static_cast<double>(a.rows)));
  }
  return sizes;
}

TEST(CliDistributions, SameSeedSameBits) {
  for (const auto& distribution : cli::distributions()) {
    const Bf16Matrix a = cli::random_activations(3, 500, kSeed, distribution);
    const Bf16Matrix b = cli::random_activations(3, 500, kSeed, distribution);
    const Bf16Matrix other = cli::random_activations(3, 500, kSeed + 1, distribution);
    const auto same_bits = [](bf16 x, bf16 y) { return x.bits == y.bits; };
    EXPECT_TRUE(std::equal(a.values.begin(), a.values.end(), b.values.begin(), same_bits));
    EXPECT_FALSE(std::equal(a.values.begin(), a.values.end(), other.values.begin(), same_bits))
        << distribution.name;
  }
}

TEST(CliDistributions, SharesBeyondAThreshold) {
  // P(|x| > t) of each distribution, from its closed form; for SwiGLU by numerical integration.
  struct Tail {
    const char* name;
    double threshold, probability;
  };
  constexpr std::int64_t kRows = 200, kCols = 2000;
  for (const Tail& tail :
       {Tail{"gaussian", 1, 0.31731}, Tail{"gaussian", 3, 0.0026998}, Tail{"laplace", 1, 0.36788},
        Tail{"laplace", 5, 0.0067379}, Tail{"student4", 1, 0.37390}, Tail{"student4", 5, 0.0074904},
        Tail{"student2.5", 1, 0.40406}, Tail{"student2.5", 5, 0.023451}}) {
    const Bf16Matrix a = draw(tail.name, kRows, kCols, kSeed);
    double count = 0;
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      count += std::fabs(value(a, 0, i)) > tail.threshold;
    }
    // Four standard deviations, and rounding to bf16, which moves the threshold by 2^-9 of itself.
    const double expected = tail.probability * kRows * kCols;
    EXPECT_NEAR(count, expected, 4 * std::sqrt(expected) + 0.02 * expected)
        << tail.name << " beyond " << tail.threshold;
  }
}

TEST(CliDistributions, ChannelsHaveTheirSizes) {
  struct Outliers {
    const char* name;
    double factor;
    int count;
  };
  for (const Outliers& kind :
       {Outliers{"channels0.2x20", 20, 4}, Outliers{"channels0.8x20", 20, 16},
        Outliers{"channels0.2x100", 100, 4}, Outliers{"gaussian", 20, 0}}) {
    int large = 0;
    for (const double size : channel_sizes(draw(kind.name, 64, 2000, kSeed))) {
      const bool outlier = size > 0.5 * kind.factor;
      large += outlier;
      EXPECT_NEAR(size / (outlier ? kind.factor : 1), 1, 0.5) << kind.name;
    }
    EXPECT_EQ(large, kind.count) << kind.name;
  }
  for (const auto& [name, deviation] : std::map<const char*, double>{
           {"lognormal0.7", 0.7}, {"lognormal1.0", 1.0}, {"swiglu-lognormal0.7", 0.7}}) {
    double sum = 0, squares = 0;
    const auto sizes = channel_sizes(draw(name, 400, 2000, kSeed));
    for (const double size : sizes)
      sum += std::log(size), squares += std::log(size) * std::log(size);
    const double mean = sum / 2000;
    EXPECT_NEAR(std::sqrt(squares / 2000 - mean * mean), deviation, 0.06) << name;
  }
}

TEST(CliDistributions, SwigluIsSmallBelowAndLargeAbove) {
  const Bf16Matrix a = draw("swiglu", 100, 1000, kSeed);
  double mean = 0, square = 0;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    mean += value(a, 0, i) / 1e5;
    square += value(a, 0, i) * value(a, 0, i) / 1e5;
  }
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(square, 0.3558, 0.02);  // E[silu(g)^2] * E[u^2], integrated numerically
}

TEST(CliDistributions, HugeHasOneOutlierARow) {
  const Bf16Matrix a = draw("huge", 50, 300, kSeed);
  std::set<std::int64_t> columns;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    int huge = 0;
    for (std::int64_t col = 0; col < a.cols; ++col) {
      if (value(a, row, col) == 0x1p40)
        ++huge, columns.insert(col);
      else
        EXPECT_LT(std::fabs(value(a, row, col)), 10);
    }
    EXPECT_EQ(huge, 1);
  }
  EXPECT_GT(columns.size(), 10u) << "not always the same column";
}

TEST_F(CliBench, AgainstOtherLibraries) {
  const std::set<std::string> there = built();
  const std::string help = mxgemm({"bench", "--help"}).out;
  for (const auto& [name, package] : std::map<std::string, std::string>{
           {"onednn", "libdnnl-dev"}, {"openblas", "libopenblas-dev"}}) {
    if (there.count(name) == 0) {
      expect_failure({"bench", "1,16,32", "--against", name}, 4, package);
      continue;
    }
    const auto built_in = help.find("built in: ");
    ASSERT_NE(built_in, std::string::npos);
    EXPECT_NE(help.find(name, built_in), std::string::npos) << help;
    const Json report = bench({"3,40,100", "--against", name, "--threads", "1,2"});
    for (const Json& shape : report["shapes"]) {
      ASSERT_EQ(shape["baselines"].size(), 1u);
      const Json& baseline = shape["baselines"][0];
      EXPECT_EQ(baseline["baseline"], name);
      if (baseline.contains("skipped")) continue;  // no bf16 on this machine
      ASSERT_TRUE(baseline.contains("warm")) << baseline;
      EXPECT_NE(baseline["description"], "");
      for (const Json& kernel : shape["kernels"]) {
        for (const char* kind : {"warm", "cold"}) {
          EXPECT_NEAR(
              kernel[kind]["speedup"][name].get<double>(),
              baseline[kind]["median_us"].get<double>() / kernel[kind]["median_us"].get<double>(),
              1e-9);
        }
      }
    }
  }
  expect_failure({"bench", "1,16,32", "--against", "mkl"}, 2,
                 "--against is \"mkl\", must be onednn");
}

/// The exact product, rounded, and then one element of it changed.
class FakeBaseline : public cli::Baseline {
 public:
  explicit FakeBaseline(std::vector<float> c, std::int64_t n) : c_(std::move(c)), n_(n) {}
  std::string description() const override { return "fake"; }
  Status run(std::int64_t) override { return {}; }
  ConstMatrix c() const override {
    return {c_.data(), DType::f32, static_cast<std::int64_t>(c_.size()) / n_, n_, n_};
  }
  float& at(std::int64_t m, std::int64_t n) { return c_[static_cast<std::size_t>(m * n_ + n)]; }

 private:
  std::vector<float> c_;
  std::int64_t n_;
};

TEST(CliBenchCheck, FindsAWrongElementOfABaseline) {
  constexpr std::int64_t kM = 4, kN = 33, kK = 100;
  const auto weights = Weights::quantize(matrix_of(float_tensor("w", "BF16", {kN, kK}, 3)));
  ASSERT_OK(weights);
  const Tensor activations = float_tensor("a", "BF16", {kM, kK}, 4);
  const ConstMatrix a = matrix_of(activations);
  const auto w =
      cli::to_float32(mxfp4_view(weights->codes().data(), weights->scales().data(), kN, kK));
  ASSERT_OK(w);
  const std::vector<double> exact = cli::float_product(a, *w, kN);
  FakeBaseline baseline(std::vector<float>(exact.begin(), exact.end()), kN);
  const cli::BenchCheck check(a, *weights, Activation::mxfp4);
  EXPECT_EQ(check.num_rows(), kM);
  EXPECT_EQ(check.num_cols(), kN);
  const auto right = check.check(baseline);
  ASSERT_OK(right);
  EXPECT_EQ(*right, "");
  baseline.at(2, 31) += 1e-3f;
  const auto wrong = check.check(baseline);
  ASSERT_OK(wrong);
  EXPECT_EQ(wrong->rfind("C[2, 31] is ", 0), 0u) << *wrong;
}

TEST_F(CliBench, PlotsItsJson) {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  std::ofstream(path("bench.json")) << bench({"1,40,100", "--m", "1,4,16", "--threads", "1"});
  const std::string plot = "python3 " MXGEMM_TOOLS "/plot_bench.py ";
  const std::string well_formed =
      " && python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' ";
  const std::string svg = path("bench.svg");
  ASSERT_EQ(std::system((plot + path("bench.json") + " -o " + svg + well_formed + svg).c_str()), 0);
  const std::string drawn = io_corpus::get(svg);
  for (const KernelInfo& kernel : kernels()) {
    const bool expected = kernel.device == DeviceKind::cpu && kernel.runs_here && kernel.mxfp4 &&
                          kernel.name != "cpu_reference";
    EXPECT_EQ(drawn.find(">" + kernel.name + "<") != std::string::npos, expected) << kernel.name;
  }
  const std::string silent = " > /dev/null 2>&1";
  EXPECT_NE(std::system((plot + path("bench.json") + " --n 41 -o " + svg + silent).c_str()), 0);
  std::ofstream(path("bench.json")) << "{}";
  EXPECT_NE(std::system((plot + path("bench.json") + " -o " + svg + silent).c_str()), 0);
}

}  // namespace
}  // namespace mxgemm::testing
