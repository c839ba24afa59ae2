// mxgemm tune: what it measures, the table it writes and adds to, and what other commands make of
// it.
#include <algorithm>
#include <set>

#include "cli_testing.h"
#include "mxgemm/tuning.h"
#include "plan/config.h"
#include "plan/tuning_text.h"

namespace mxgemm::testing {
namespace {

class CliTune : public CliTest {
 protected:
  std::string table() const { return path("table"); }
  Tuning load() const {
    const auto tuning = Tuning::load(table());
    EXPECT_OK(tuning);
    return *tuning;
  }
  /// A whole table with one row of a device that is not here.
  void write_foreign_table(const std::string& build) const {
    const KernelDesc& kernel = kernel_named("cpu_portable");
    const TuningRow row{.device = "cpu-there",
                        .m_max = 2,
                        .n = 40,
                        .k = 100,
                        .kernel = kernel.name,
                        .config = kernel.configs.front(),
                        .evidence = {.threads = 1, .us = 1, .date = "2026-12-01"}};
    io_corpus::put(table(), tuning_text({&row, 1}, build));
  }
};

TEST_F(CliTune, MeasuresEveryConfigAndWritesATableThatPlansTake) {
  const Outcome outcome =
      mxgemm({"tune", "2,40,100", "8,40,100", "--time", "0", "--threads", "1", "-o", table()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const KernelDesc* kernel : registry()) {
    if (!kernel->mxfp4 || !kernel->supports({}, Device::cpu()).is_ok() ||
        kernel->name == "cpu_reference") {
      continue;
    }
    for (const Config& config : kernel->configs) {
      const std::string name = std::string(kernel->name) + " (" + to_string(config) + "): ";
      EXPECT_NE(outcome.out.find(name), std::string::npos) << name << outcome.out;
    }
  }
  const std::string device = Tuning::device(Device::cpu());
  EXPECT_NE(outcome.out.find("{\"" + device + "\", Activation::mxfp4, 2, 40, 100, \"cpu_"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\"mxgemm tune 2,40,100 --threads 1\"}},"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(load().num_rows(device), load().num_rows());
  EXPECT_GE(load().num_rows(), 2);
  const Outcome explained = mxgemm({"explain", "1", "40", "100"}, {"MXGEMM_TUNING=" + table()});
  EXPECT_EQ(explained.code, 0);
  EXPECT_EQ(explained.err, "");
  EXPECT_NE(explained.out.find("chosen by the row of " + table() + " for m <= 2"),
            std::string::npos)
      << explained.out;
  EXPECT_EQ(folder_.names(), std::set<std::string>{"table"});
}

TEST_F(CliTune, AddsToATableAndReplacesWhatIsMeasuredAgain) {
  write_foreign_table(Tuning::build());
  const auto tune = [this](const std::string& kernel) {
    const Outcome outcome =
        mxgemm({"tune", "2,40,100", "--kernel", kernel, "--time", "0", "-o", table()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  tune("cpu_reference");
  EXPECT_EQ(load().num_rows(), 2);
  EXPECT_EQ(load().num_rows("cpu-there"), 1);
  tune("cpu_portable");
  EXPECT_EQ(load().num_rows(), 2);
  EXPECT_EQ(load().num_rows("cpu-there"), 1);
  const Outcome explained = mxgemm({"explain", "2", "40", "100"}, {"MXGEMM_TUNING=" + table()});
  EXPECT_NE(explained.out.find("m 2: cpu_portable"), std::string::npos) << explained.out;
}

TEST_F(CliTune, LeavesAFileAloneThatIsNoTableOfThisBuild) {
  const std::vector<std::string> args = {"tune",   "1,16,32", "--kernel", "cpu_portable",
                                         "--time", "0",       "-o",       table()};
  write_foreign_table("0.0.0-other");
  const std::string before = io_corpus::get(table());
  expect_failure(args, 4, "--force");
  io_corpus::put(table(), "my notes\n");
  expect_failure(args, 3, "--force");
  EXPECT_EQ(io_corpus::get(table()), "my notes\n");
  auto forced = args;
  forced.emplace_back("--force");
  EXPECT_EQ(mxgemm(forced).code, 0);
  EXPECT_EQ(load().num_rows(), 1);
}

TEST_F(CliTune, MeasuresTheLayersOfACheckpoint) {
  const auto layer = mxfp4_pair("fc.weight", random_mxfp4(24, 64, 1, {120, 127}));
  write_checkpoint(path("model.safetensors"), layer);
  const Outcome outcome =
      mxgemm({"tune", "--checkpoint", path("model.safetensors"), "--m", "3", "--m", "1",
              "--activation", "none", "--kernel", "cpu_reference", "--time", "0"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Without -o the table is printed.
  const std::size_t begin = outcome.out.find("mxgemm-tuning 1\n");
  ASSERT_NE(begin, std::string::npos) << outcome.out;
  const auto tuning = Tuning::parse(outcome.out.substr(begin));
  ASSERT_OK(tuning);
  EXPECT_EQ(tuning->num_rows(), 2);
  EXPECT_NE(outcome.out.find(" none 3 24 64 cpu_reference "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("--activation none\""), std::string::npos) << outcome.out;
}

TEST_F(CliTune, OtherRowsReplaceTheShapesOwn) {
  const Outcome outcome = mxgemm({"tune", "9,24,64", "5,24,64", "--m", "1,3", "--kernel",
                                  "cpu_portable", "--time", "0", "-o", table()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(load().num_rows(), 2);
  for (const char* row : {" mxfp4 1 24 64 cpu_portable ", " mxfp4 3 24 64 cpu_portable "}) {
    EXPECT_NE(io_corpus::get(table()).find(row), std::string::npos) << row;
  }
}

TEST_F(CliTune, ATableThatCannotBeUsedIsAWarningOnStderr) {
  write_foreign_table("0.0.0-other");
  for (const auto& args : {std::vector<std::string>{"explain", "1", "16", "32"},
                           std::vector<std::string>{"info", "--json"}}) {
    const Outcome outcome = mxgemm(args, {"MXGEMM_TUNING=" + table()});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err.rfind("mxgemm: warning: MXGEMM_TUNING is ignored: ", 0), 0u)
        << outcome.err;
    EXPECT_NE(outcome.err.find("it is for build 0.0.0-other"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
}

}  // namespace
}  // namespace mxgemm::testing
