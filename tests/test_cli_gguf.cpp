// mxgemm inspect and dequantize on GGUF files.
#include <algorithm>
#include <cmath>

#include "cli_testing.h"
#include "io_corpus/gguf.h"

namespace mxgemm::testing {
namespace {

namespace corpus = io_corpus;
using corpus::gguf_entry;
using corpus::gguf_tensor;
using corpus::little_endian;

class CliGguf : public CliTest {};

TEST_F(CliGguf, InspectListsTensorsAndMetadata) {
  std::string bytes = corpus::gguf(
      {.entries = {gguf_entry("general.name", 8, corpus::gguf_text("a\x1b[31mb")),
                   gguf_entry("blocks", 4, little_endian(24, 4)),
                   gguf_entry("least", 11, little_endian(std::uint64_t{1} << 63, 8)),
                   gguf_entry("eps", 6, little_endian(0x3F000000, 4)),
                   gguf_entry("nan", 6, little_endian(0x7FC00000, 4)),
                   gguf_entry("flag", 7, "\x01"),
                   gguf_entry(
                       "tokens", 9,
                       corpus::gguf_array(8, 2, corpus::gguf_text("x") + corpus::gguf_text("y")))},
       .tensors = {gguf_tensor("w", {64, 2}, 39, 0), gguf_tensor("e", {32, 1, 3}, 39, 96),
                   gguf_tensor("norm", {4}, 0, 160), gguf_tensor("q", {256, 2}, 12, 192)},
       .data_bytes = 192 + 288});
  const std::size_t data = bytes.size() - (192 + 288);
  const char scales[] = {120, 127, static_cast<char>(130), static_cast<char>(255)};
  for (std::size_t i = 0; i < 4; ++i) bytes[data + 17 * i] = scales[i];
  for (std::size_t i = 0; i < 3; ++i) bytes[data + 96 + 17 * i] = 127;
  // Found by its first bytes, whatever its name.
  const std::string file = path("model.safetensors");
  corpus::put(file, bytes);
  const Outcome text = mxgemm({"inspect", file});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, file + R"(
  GGUF version 3, alignment 32
  general.name = a\x1b[31mb
  blocks = 24
  least = -9223372036854775808
  eps = 0.5
  nan = null
  flag = true
  tokens = [string x 2]
  w       MXFP4    [2, 64]               MXFP4 N=2 K=64, scales 2^-7..2^3, 1 NaN scales
  e       MXFP4    [3, 1, 32]            MXFP4 E=3 N=1 K=32, scales 2^0..2^0
  norm    F32      [4]
  q       Q4_K     [2, 256]
4 tensors, 423 B, 2 MXFP4 layers, 7 metadata entries
)");
  const Outcome outcome = mxgemm({"inspect", file, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  const Json& found = json["files"][0];
  EXPECT_EQ(found["format"], "gguf");
  EXPECT_EQ(found["version"], 3);
  EXPECT_EQ(found["alignment"], 32);
  EXPECT_EQ(found["metadata"]["general.name"], "a\x1b[31mb");
  EXPECT_EQ(found["metadata"]["tokens"], (Json{{"type", "string"}, {"count", 2}}));
  EXPECT_EQ(found["tensors"][3],
            (Json{{"name", "q"}, {"dtype", "Q4_K"}, {"shape", {2, 256}}, {"bytes", 288}}));
  const Json layer = {{"name", "w"},
                      {"experts", 1},
                      {"n", 2},
                      {"k", 64},
                      {"scale_rule", "unknown"},
                      {"scale_min", 120},
                      {"scale_max", 130},
                      {"nan_scales", 1}};
  EXPECT_EQ(json["layers"][0], layer);
  EXPECT_EQ(json["layers"].size(), 2u);
}

// Against values worked out here from the blocks: element j of a block in the low half of byte j,
// j + 16 in the high half.
TEST_F(CliGguf, DequantizeWritesSafetensors) {
  constexpr std::size_t kRows = 6, kBlocks = 3;
  constexpr float kValues[] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  std::vector<std::uint8_t> blocks = random_bytes(kRows * kBlocks * 17, 5);
  std::vector<float> want(kRows * kBlocks * 32);
  for (std::size_t b = 0; b < kRows * kBlocks; ++b) {
    std::uint8_t* const block = blocks.data() + 17 * b;
    block[0] = static_cast<std::uint8_t>(100 + b);
    for (std::size_t j = 0; j < 16; ++j) {
      want[32 * b + j] = std::ldexp(kValues[block[1 + j] & 15], block[0] - 127);
      want[32 * b + j + 16] = std::ldexp(kValues[block[1 + j] >> 4], block[0] - 127);
    }
  }
  const std::size_t data_bytes = 320 + 20;
  std::string bytes = corpus::gguf(
      {.tensors = {gguf_tensor("w", {96, 3, 2}, 39, 0), gguf_tensor("ids", {5}, 26, 320)},
       .data_bytes = data_bytes});
  ASSERT_LE(blocks.size(), 320u);
  std::copy(blocks.begin(), blocks.end(), bytes.end() - static_cast<std::ptrdiff_t>(data_bytes));
  corpus::put(path("in"), bytes);
  const std::vector<std::string> args = {"dequantize", path("in"), "-o", path("out"), "--dtype"};
  const auto with = [&](const std::string& dtype) {
    std::vector<std::string> all = args;
    all.push_back(dtype);
    return all;
  };
  const Outcome outcome = mxgemm(with("f32"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const io::SafetensorsFile out = open("out");
  EXPECT_EQ(out.find("w")->dtype, "F32");
  EXPECT_EQ(out.find("w")->shape, (std::vector<std::int64_t>{2, 3, 96}));
  EXPECT_EQ(data_of(out, "w"), bytes_of(want));
  EXPECT_EQ(out.find("ids")->dtype, "I32");
  EXPECT_EQ(corpus::text_of(out.find("ids")->data), bytes.substr(bytes.size() - 20));
  expect_failure(with("f32"), 2, "exists already");
  fs::remove(path("out"));
  corpus::put(
      path("in"),
      corpus::gguf({.tensors = {gguf_tensor("w", {32}, 39, 0), gguf_tensor("q", {256}, 12, 32)},
                    .data_bytes = 32 + 144}));
  expect_failure(with("bf16"), 4, "tensor 'q' is Q4_K, only MXFP4");
  corpus::put(path("in"), corpus::gguf_one_tensor({4}, 0, 16));
  expect_failure(with("bf16"), 3, "has no MXFP4 layer");
  EXPECT_EQ(folder_.names(), std::set<std::string>{"in"});
}

TEST_F(CliGguf, MalformedFilesAreBadInput) {
  const std::string file = path("bad.gguf");
  int checked = 0;
  for (const auto& malformed : corpus::malformed_ggufs()) {
    if (!malformed.bytes.starts_with("GGUF")) continue;  // read as safetensors
    corpus::put(file, malformed.bytes);
    SCOPED_TRACE(malformed.name);
    expect_failure({"inspect", file}, 3, malformed.expected);
    ++checked;
  }
  EXPECT_GE(checked, 60);
  corpus::put(file, corpus::gguf({.version = 1}));
  expect_failure({"inspect", file}, 4, "bad.gguf: is GGUF of version 1, needs to be 2 or 3");
  EXPECT_EQ(folder_.names(), std::set<std::string>{"bad.gguf"});
}

}  // namespace
}  // namespace mxgemm::testing
