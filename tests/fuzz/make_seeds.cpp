// Writes the seeds of the fuzz targets: make_seeds FOLDER gives FOLDER/<target>/<case>. The
// malformed files of the tests, and legal ones.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "io_corpus/gguf.h"
#include "io_corpus/malformed.h"
#include "io_corpus/temp_folder.h"

namespace {

using namespace mxgemm::io_corpus;
constexpr std::size_t kMaxSeed = 4096;  // large ones only slow the fuzzer down

std::vector<MalformedCase> legal_safetensors() {
  return {
      {"legal_empty", safetensors("{}"), ""},
      {"legal_padded", safetensors("{}      "), ""},
      {"legal_f32", one_tensor("F32", "[2,3]", "[0,24]", 24), ""},
      {"legal_bf16", one_tensor("BF16", "[4,2]", "[0,16]", 16), ""},
      {"legal_f4", one_tensor("F4", "[2,4]", "[0,4]", 4), ""},
      {"legal_scale", one_tensor("F8_E8M0", "[5]", "[0,5]", 5), ""},
      {"legal_scalar", one_tensor("F64", "[]", "[0,8]", 8), ""},
      {"legal_unknown", one_tensor("NEW", "[5]", "[0,7]", 7), ""},
      {"legal_zero", one_tensor("U8", "[0,5]", "[0,0]", 0), ""},
      {"legal_several",
       safetensors("{\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\\n\":\"\\\"\"}," +
                       tensor("b", "U8", "[3]", "[2,5]") + "," +
                       tensor("a.weight", "F16", "[1,1]", "[0,2]") + "," +
                       tensor("z", "I8", "[0]", "[5,5]") + "}",
                   5),
       ""},
  };
}

std::vector<MalformedCase> legal_indices() {
  return {
      {"legal_empty", "{\"weight_map\":{}}", ""},
      {"legal_two",
       "{\"metadata\":{\"total_size\":12,\"x\":[1.5,null,true,{}]},\"weight_map\":{\"a\":"
       "\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002.safetensors\"}}\n",
       ""},
  };
}

std::vector<MalformedCase> legal_npys() {
  return {
      {"legal_v1", npy(npy_dict("'<f4'", "False", "(2, 3)"), 24), ""},
      {"legal_v2", npy(npy_dict("'<u2'", "False", "(4,)"), 8, 2), ""},
      {"legal_v3", npy(npy_dict("'|i1'", "False", "()"), 1, 3), ""},
      {"legal_zero", npy(npy_dict("'<i8'", "False", "(0, 3)"), 0), ""},
  };
}

/// Lines; the target adds the frame.
std::vector<MalformedCase> tuning_lines() {
  const std::string row =
      "row cpu-x mxfp4 16 64 128 cpu_reference block_m=1,block_n=1 1 12.50 0.5000 2026-12-31\n";
  return {
      {"legal_empty", "", ""},
      {"legal_row", row, ""},
      {"legal_comment", "# a comment\n" + row, ""},
      {"twice", row + row, ""},
      {"unknown_kernel", "row cpu-x none 1 1 1 cpu_magic - 1 1 1 2026-12-31\n", ""},
      {"cut", row.substr(0, 40), ""},
  };
}

void write(const std::filesystem::path& folder, const std::vector<MalformedCase>& cases) {
  std::filesystem::create_directories(folder);
  for (const MalformedCase& seed : cases) {
    if (seed.bytes.size() <= kMaxSeed) put(folder / seed.name, seed.bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  write(folder / "fuzz_safetensors", malformed_safetensors());
  write(folder / "fuzz_safetensors", legal_safetensors());
  write(folder / "fuzz_gguf", malformed_ggufs());
  write(folder / "fuzz_gguf", legal_ggufs());
  write(folder / "fuzz_index", malformed_indices());
  write(folder / "fuzz_index", legal_indices());
  write(folder / "fuzz_npy", malformed_npys());
  write(folder / "fuzz_npy", legal_npys());
  write(folder / "fuzz_tuning", tuning_lines());
  return 0;
}
