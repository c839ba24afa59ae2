// What all commands share: help, strict options, exit codes; and the commands that only tell.
#include <fcntl.h>

#include <algorithm>
#include <set>

#include "cli_testing.h"
#include "io_corpus/malformed.h"
#include "mxgemm/version.h"

namespace mxgemm::testing {
namespace {

class CliBasics : public CliTest {};

const std::vector<std::string> kCommands = {"quantize", "dequantize", "inspect", "run",
                                            "verify",   "bench",      "kernels", "info",
                                            "explain",  "tune"};

TEST_F(CliBasics, VersionIsTheHeaders) {
  const Outcome outcome = mxgemm({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "mxgemm " MXGEMM_VERSION "\n");
}

TEST_F(CliBasics, EveryHelpEndsWithAnExample) {
  for (const std::string& command : kCommands) {
    const Outcome outcome = mxgemm({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    const std::size_t example = outcome.out.find("\nExample:\n  mxgemm " + command);
    ASSERT_NE(example, std::string::npos) << outcome.out;
    EXPECT_EQ(std::count(outcome.out.begin() + static_cast<std::ptrdiff_t>(example) + 1,
                         outcome.out.end(), '\n'),
              2)
        << command << ": the example is not the end";
  }
  const Outcome all = mxgemm({"--help"});
  for (const std::string& command : kCommands) {
    EXPECT_NE(all.out.find("\n  " + command + " "), std::string::npos) << command;
  }
}

TEST_F(CliBasics, UsageErrorsNameTheValueAndPointToHelp) {
  expect_failure({}, 2, "mxgemm --help");
  expect_failure({"frobnicate"}, 2, "\"frobnicate\"");
  expect_failure({"quantize"}, 2, "mxgemm quantize --help");
  expect_failure({"info", "--frob"}, 2, "--frob");
  expect_failure({"quantize", "a", "-o", "b", "--threads", "-1"}, 2, "\"-1\"");
  expect_failure({"quantize", "a", "-o", "b", "--threads", "2x"}, 2, "\"2x\"");
  expect_failure({"quantize", "a", "-o", "b", "--threads", "1025"}, 2, "\"1025\"");
  expect_failure({"quantize", "a", "-o", "b", "--rule", "eve"}, 2, "eve");
  expect_failure({"quantize", "a", "-o", "b", "--non-finite", "ignore"}, 2, "ignore");
  expect_failure({"dequantize", "a", "-o", "b"}, 2, "--dtype");
  expect_failure({"dequantize", "a", "-o", "b", "--dtype", "f16"}, 2, "\"f16\"");
  expect_failure({"explain", "1", "0", "32"}, 2, "\"0\"");
  expect_failure({"explain", "1", "16", "3.5"}, 2, "\"3.5\"");
  expect_failure({"explain", "1", "16", "32", "--reproducible", "always"}, 2, "\"always\"");
  expect_failure({"explain", "1", "16", "32", "--activation", "int8"}, 2, "\"int8\"");
  expect_failure({"explain", "1", "16", "32", "--kernel", "cpu_best"}, 2, "\"cpu_best\"");
  expect_failure({"bench", "1,2"}, 2, "\"1,2\"");
  expect_failure({"bench", "1,2,3,4"}, 2, "\"1,2,3,4\"");
  expect_failure({"bench", "0,16,32"}, 2, "\"0,16,32\"");
  expect_failure({"bench", "1,16,32", "--time", "soon"}, 2, "\"soon\"");
  expect_failure({"bench", "--shapes", "small"}, 2, "small");
  expect_failure({"tune"}, 2, "--checkpoint");
  expect_failure({"tune", "1,16"}, 2, "\"1,16\"");
  expect_failure({"tune", "1,16,32", "--kernel", "cpu_best"}, 2, "\"cpu_best\"");
  expect_failure({"tune", "--checkpoint", "x", "--m", "0"}, 2, "\"0\"");
  expect_failure({"kernels", "--json", "--markdown"}, 2, "--markdown");
}

TEST_F(CliBasics, MissingFilesAreIoErrors) {
  const std::string none = path("none.safetensors");
  expect_failure({"inspect", none}, 5, "none.safetensors");
  expect_failure({"quantize", none, "-o", path("out")}, 5, "none.safetensors");
  expect_failure({"verify", none}, 5, "none.safetensors");
  expect_failure({"bench", "--checkpoint", none}, 5, "none.safetensors");
}

TEST_F(CliBasics, MalformedFilesAreBadInput) {
  const auto cases = io_corpus::malformed_safetensors();
  ASSERT_GE(cases.size(), 40u);
  for (const auto& malformed : cases) {
    const std::string file = path("bad.safetensors");
    io_corpus::put(file, malformed.bytes);
    SCOPED_TRACE(malformed.name);
    expect_failure({"inspect", file}, 3, malformed.expected);
  }
  const std::string file = path("bad.safetensors");
  expect_failure({"quantize", file, "-o", path("out")}, 3, "bad.safetensors");
  expect_failure({"dequantize", file, "-o", path("out"), "--dtype", "f32"}, 3, "bad.safetensors");
  expect_failure({"verify", file}, 3, "bad.safetensors");
  EXPECT_EQ(folder_.names(), std::set<std::string>{"bad.safetensors"});
}

TEST_F(CliBasics, AFullDiskUnderStdoutIsAnIoError) {
  const std::string command = std::string(MXGEMM_COMMAND) + " kernels > /dev/full 2>/dev/null";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST_F(CliBasics, KernelsPageIsUpToDate) {
  const Outcome outcome = mxgemm({"kernels", "--markdown"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, io_corpus::get(MXGEMM_DOCS "/kernels.md"))
      << "docs/kernels.md is out of date: mxgemm kernels --markdown > docs/kernels.md";
}

TEST_F(CliBasics, KernelsListTheRegistry) {
  const Outcome text = mxgemm({"kernels"});
  const Json json = Json::parse(mxgemm({"kernels", "--json"}).out);
  const auto expected = kernels();
  ASSERT_EQ(json.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(json[i]["name"], expected[i].name);
    EXPECT_EQ(json[i]["runs_here"], expected[i].runs_here);
    EXPECT_NE(text.out.find(expected[i].name + " "), std::string::npos);
  }
}

TEST_F(CliBasics, InfoShowsVariablesInForce) {
  const Json plain = Json::parse(mxgemm({"info", "--json"}).out);
  EXPECT_EQ(plain["version"], MXGEMM_VERSION);
  EXPECT_EQ(plain["cpu_isa"], cpu_isa());
  EXPECT_EQ(plain["environment"].contains("MXGEMM_CPU_ISA"),
            std::getenv("MXGEMM_CPU_ISA") != nullptr);
  const Outcome capped = mxgemm({"info"}, {"MXGEMM_CPU_ISA=baseline"});
  EXPECT_EQ(capped.code, 0);
  EXPECT_NE(capped.out.find("\nMXGEMM_CPU_ISA=baseline\n"), std::string::npos) << capped.out;
  EXPECT_NE(capped.out.find("instruction set used: baseline"), std::string::npos) << capped.out;
}

TEST_F(CliBasics, ExplainNamesTheKernelAndTheOthers) {
  const Outcome outcome = mxgemm({"explain", "16", "48", "100"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const KernelInfo& kernel : kernels()) {
    EXPECT_NE(outcome.out.find(kernel.name), std::string::npos) << kernel.name;
  }
  const Outcome forced =
      mxgemm({"explain", "1", "17", "45", "--kernel", "cpu_reference", "--reproducible", "device"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_NE(forced.out.find("m 1: cpu_reference"), std::string::npos) << forced.out;
}

// Weights of this size do not fit into any memory: explain makes none.
TEST_F(CliBasics, ExplainNeedsNoWeights) {
  const Outcome outcome = mxgemm({"explain", "1", "134217728", "134217728"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("chosen by the cost model"), std::string::npos) << outcome.out;
}

TEST_F(CliBasics, WhatNoKernelDoesIsUnsupported) {
  expect_failure({"explain", "1", "16", "32", "--activation", "none", "--reproducible", "device"},
                 4, "device");
}

}  // namespace
}  // namespace mxgemm::testing
