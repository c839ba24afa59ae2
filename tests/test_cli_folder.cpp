// mxgemm quantize, dequantize and inspect on folders: shards, index, config.json, other files.
#include <csignal>
#include <thread>

#include "cli_testing.h"

namespace mxgemm::testing {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

class CliFolder : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directory(path("in"));
    a_ = float_tensor("a.weight", "BF16", {16, 64}, 1);
    b_ = float_tensor("b.weight", "F32", {8, 96}, 2);
    head_ = float_tensor("lm_head.weight", "BF16", {8, 64}, 3);
    write_checkpoint(path("in/model-00001-of-00002.safetensors"),
                     {a_, float_tensor("a.bias", "BF16", {16}, 4)}, {{"format", "pt"}});
    write_checkpoint(path("in/model-00002-of-00002.safetensors"), {b_, head_});
    const Json index = {{"metadata", {{"total_size", 1}, {"note", "kept"}}},
                        {"weight_map",
                         {{"a.weight", "model-00001-of-00002.safetensors"},
                          {"a.bias", "model-00001-of-00002.safetensors"},
                          {"b.weight", "model-00002-of-00002.safetensors"},
                          {"lm_head.weight", "model-00002-of-00002.safetensors"}}}};
    io_corpus::put(path("in/") + kIndex, index.dump());
    io_corpus::put(path("in/config.json"), R"({"model_type":"tiny","hidden_size":64})");
    io_corpus::put(path("in/tokenizer.json"), "{\"t\":1}");
    fs::create_directory(path("in/extra"));
    io_corpus::put(path("in/extra/notes.txt"), "notes");
    fs::create_directory(path("in/extra/deep"));
    io_corpus::put(path("in/extra/deep/more.txt"), "more");
    fs::create_directory(path("in/.cache"));
    io_corpus::put(path("in/.cache/lock"), "x");
  }
  Outcome quantize_folder(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"quantize", path("in"), "-o", path("out")};
    args.insert(args.end(), more.begin(), more.end());
    return mxgemm(args);
  }
  Json read_json(const std::string& name) const { return Json::parse(io_corpus::get(path(name))); }

  Tensor a_, b_, head_;
};

TEST_F(CliFolder, RoundTripKeepsShardsIndexConfigAndOtherFiles) {
  const Outcome outcome = quantize_folder();
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"in", "out"}));
  const auto first = open("out/model-00001-of-00002.safetensors");
  const auto second = open("out/model-00002-of-00002.safetensors");
  EXPECT_EQ(data_of(first, "a.weight"), quantized(a_).codes);
  EXPECT_EQ(data_of(first, "a.weight_scale"), quantized(a_).scales);
  EXPECT_EQ(data_of(second, "b.weight"), quantized(b_).codes);
  EXPECT_EQ(data_of(second, "lm_head.weight"), head_.bytes);
  EXPECT_EQ(first.metadata().at("format"), "pt");
  EXPECT_EQ(second.metadata().at("mxgemm.k"), R"({"b.weight":96})");

  const Json index = read_json(std::string("out/") + kIndex);
  std::int64_t total = 0;
  for (const auto* file : {&first, &second}) {
    for (const auto& t : file->tensors()) {
      total += static_cast<std::int64_t>(t.data.size());
      EXPECT_EQ(index["weight_map"][t.name], fs::path(file->name()).filename().string());
    }
  }
  EXPECT_EQ(index["weight_map"].size(), first.tensors().size() + second.tensors().size());
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["metadata"]["note"], "kept");

  const Json config = read_json("out/config.json");
  EXPECT_EQ(config["hidden_size"], 64);
  const Json& section = config["quantization_config"];
  EXPECT_EQ(section["quant_method"], "quark");
  EXPECT_EQ(section["exclude"], Json::array({"lm_head"}));
  EXPECT_EQ(section["export"]["weight_format"], "real_quantized");
  const Json& weight = section["global_quant_config"]["weight"];
  EXPECT_EQ(weight["dtype"], "fp4");
  EXPECT_EQ(weight["group_size"], 32);
  EXPECT_EQ(weight["scale_format"], "e8m0");
  EXPECT_EQ(weight["scale_calculation_mode"], "even");
  EXPECT_EQ(weight["is_dynamic"], false);
  EXPECT_EQ(section["global_quant_config"]["input_tensors"]["is_dynamic"], true);

  EXPECT_EQ(io_corpus::get(path("out/tokenizer.json")), "{\"t\":1}");
  EXPECT_EQ(io_corpus::get(path("out/extra/notes.txt")), "notes");
  EXPECT_EQ(io_corpus::get(path("out/extra/deep/more.txt")), "more");
  EXPECT_FALSE(fs::exists(path("out/.cache")));

  const Outcome back = mxgemm({"dequantize", path("out"), "-o", path("back"), "--dtype", "bf16"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(read_json("back/config.json"), read_json("in/config.json"));
  const auto restored = open("back/model-00002-of-00002.safetensors");
  EXPECT_EQ(restored.find("b.weight")->shape, b_.shape);
  EXPECT_EQ(restored.find("b.weight")->dtype, "BF16");
  EXPECT_EQ(data_of(restored, "lm_head.weight"), head_.bytes);
  using Unordered = nlohmann::json;
  EXPECT_EQ(Unordered(read_json(std::string("back/") + kIndex)["weight_map"]),
            Unordered(read_json(std::string("in/") + kIndex)["weight_map"]));
}

TEST_F(CliFolder, WithoutAnIndexEveryFileIsAShard) {
  fs::remove(path("in/") + kIndex);
  ASSERT_EQ(quantize_folder().code, 0);
  EXPECT_FALSE(fs::exists(path("out/") + kIndex));
  EXPECT_EQ(data_of(open("out/model-00002-of-00002.safetensors"), "b.weight"), quantized(b_).codes);
}

TEST_F(CliFolder, PairsSplitOverTwoShardsAreFound) {
  fs::create_directory(path("split"));
  const std::vector<Tensor> pair = mxfp4_pair("a.weight", quantized(a_));
  write_checkpoint(path("split/one.safetensors"), {pair[0]});
  write_checkpoint(path("split/two.safetensors"), {pair[1], head_});
  const Outcome inspected = mxgemm({"inspect", path("split"), "--json"});
  EXPECT_EQ(Json::parse(inspected.out)["layers"][0]["k"], 64);
  ASSERT_EQ(mxgemm({"dequantize", path("split"), "-o", path("back"), "--dtype", "f32"}).code, 0);
  EXPECT_EQ(open("back/one.safetensors").find("a.weight")->shape, a_.shape);
  EXPECT_EQ(open("back/two.safetensors").tensors().size(), 1u);
}

TEST_F(CliFolder, OutputsThatWouldDestroySomethingAreRefused) {
  expect_failure({"quantize", path("in"), "-o", path("in")}, 2, "is the input itself");
  expect_failure({"quantize", path("in"), "-o", path("in/")}, 2, "is the input itself");
  expect_failure({"quantize", path("in"), "-o", path("in/out")}, 2, "lies inside the input");
  expect_failure({"quantize", path("in"), "-o", folder_.path().string(), "--force"}, 2,
                 "contains the input");
  fs::create_directory(path("out"));
  io_corpus::put(path("out/diary.txt"), "dear");
  expect_failure({"quantize", path("in"), "-o", path("out")}, 2, "--force");
  expect_failure({"quantize", path("in"), "-o", path("out"), "--force"}, 2, "will not replace");
  EXPECT_EQ(io_corpus::get(path("out/diary.txt")), "dear");
  fs::remove(path("out/diary.txt"));
  EXPECT_EQ(quantize_folder({"--force"}).code, 0);
  io_corpus::put(path("out/old.txt"), "old");
  EXPECT_EQ(quantize_folder({"--force"}).code, 0);
  EXPECT_FALSE(fs::exists(path("out/old.txt")));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"in", "out"}));
  io_corpus::put(path("file"), "x");
  expect_failure({"quantize", path("in"), "-o", path("file"), "--force"}, 2, "is a file");
}

TEST_F(CliFolder, BadFoldersAreBadInputAndLeaveNothing) {
  io_corpus::put(path("in/config.json"), "[1]");
  expect_failure({"quantize", path("in"), "-o", path("out")}, 3, "config.json");
  io_corpus::put(path("in/config.json"), R"({"quantization_config":{"quant_method":"awq"}})");
  expect_failure({"quantize", path("in"), "-o", path("out")}, 3, "already quantized");
  fs::remove(path("in/config.json"));
  fs::create_directory_symlink(path("in"), path("in/extra/circle"));
  expect_failure({"quantize", path("in/"), "-o", path("out/")}, 3, "circle");
  fs::remove(path("in/extra/circle"));
  fs::resize_file(path("in/model-00002-of-00002.safetensors"), 100);
  expect_failure({"quantize", path("in"), "-o", path("out")}, 3, "model-00002");
  fs::remove(path("in/model-00002-of-00002.safetensors"));
  expect_failure({"quantize", path("in"), "-o", path("out")}, 3, "model-00002");
  fs::create_directory(path("empty"));
  expect_failure({"quantize", path("empty"), "-o", path("out")}, 3, "empty");
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"empty", "in"}));
}

TEST_F(CliFolder, OtherToolsSectionsAreNotUndone) {
  fs::create_directory(path("q"));
  write_checkpoint(path("q/model.safetensors"), mxfp4_pair("a.weight", quantized(a_)));
  io_corpus::put(path("q/config.json"), R"({"quantization_config":{"quant_method":"awq"}})");
  expect_failure({"dequantize", path("q"), "-o", path("out"), "--dtype", "f32"}, 4, "'awq'");
}

TEST_F(CliFolder, AnInterruptionLeavesNoHalfFolder) {
  std::vector<Tensor> tensors;
  const Tensor w = float_tensor("weight", "BF16", {2048, 2048}, 1);
  for (int i = 0; i < 24; ++i) {
    tensors.push_back(w);
    tensors.back().name = "layer" + std::to_string(i) + ".weight";
  }
  fs::create_directory(path("big"));
  write_checkpoint(path("big/model.safetensors"), tensors);
  const auto before = folder_.names();
  int code = 0;
  for (int attempt = 0; attempt < 5 && code == 0; ++attempt) {  // a busy machine may be too late
    fs::remove_all(path("out"));
    const pid_t pid = start({"quantize", path("big"), "-o", path("out"), "--threads", "1"});
    bool begun = false;  // its temporary folder is there
    for (int i = 0; i < 10'000 && !begun; ++i) {
      for (const std::string& name : folder_.names()) begun |= name.rfind(".out.partial-", 0) == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(begun);
    kill(pid, SIGTERM);
    code = wait(pid).code;
  }
  EXPECT_EQ(code, 128 + SIGTERM);
  EXPECT_EQ(folder_.names(), before);
}

}  // namespace
}  // namespace mxgemm::testing
