// Reading safetensors: what is refused, what is legal, and what a view gives.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io_corpus/check_malformed.h"
#include "io_corpus/temp_folder.h"

namespace mxgemm::io {
namespace {

using namespace io_corpus;

Result<SafetensorsFile> parse(std::string_view bytes) {
  return SafetensorsFile::parse(bytes_of(bytes), "some.file");
}

TEST(Safetensors, MalformedFilesHaveTheirOwnErrors) {
  check_malformed(malformed_safetensors(), 90,
                  [](std::string_view bytes) { return parse(bytes).status(); });
}

TEST(Safetensors, EveryTruncationOfAFileIsRefused) {
  const std::string whole = one_tensor("BF16", "[2,3]", "[0,12]", 12);
  ASSERT_TRUE(parse(whole).is_ok());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(parse(whole.substr(0, n)).status().code(), StatusCode::bad_data) << n;
  }
}

TEST(Safetensors, ReadsATensor) {
  const std::string bytes =
      safetensors(R"({"__metadata__":{"format":"pt","\u00e9\n":"\"x\""},)" +
                      tensor("layers/0/../w", "BF16", "[2,3]", "[0,12]") + "}   \n\t",
                  12);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  EXPECT_EQ(file->name(), "some.file");
  EXPECT_EQ(file->file_bytes(), bytes.size());
  EXPECT_EQ(file->header_bytes(), bytes.size() - 8 - 12);
  EXPECT_EQ(file->metadata(), (Metadata{{"format", "pt"}, {"\u00e9\n", "\"x\""}}));
  ASSERT_EQ(file->tensors().size(), 1u);
  const TensorView* const found = file->find("layers/0/../w");
  ASSERT_EQ(found, file->tensors().data());
  EXPECT_EQ(found->dtype, "BF16");
  EXPECT_EQ(found->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(found->num_elements(), 6);
  EXPECT_EQ(text_of(found->data), bytes.substr(bytes.size() - 12));
  EXPECT_EQ(file->find("layers"), nullptr);
  EXPECT_EQ(file->find(""), nullptr);
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const auto bytes = safetensors("{" + tensor("b", "U8", "[1]", "[3,4]") + "," +
                                     tensor("c", "U8", "[2]", "[1,3]") + "," +
                                     tensor("a", "I8", "[1]", "[0,1]") + "}",
                                 4);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  std::string names;
  for (const TensorView& t : file->tensors()) names += t.name;
  EXPECT_EQ(names, "acb");
  for (const TensorView& t : file->tensors()) EXPECT_EQ(file->find(t.name), &t);
}

TEST(Safetensors, NoTensorsAndEmptyTensorsAreLegal) {
  EXPECT_TRUE(parse(safetensors("{}")).is_ok());
  EXPECT_TRUE(parse(safetensors("{\"__metadata__\":{}}")).is_ok());
  const auto bytes = safetensors(
      "{" + tensor("w", "F32", "[1]", "[0,4]") + "," + tensor("z", "F32", "[0,8]", "[4,4]") + "," +
          tensor("y", "F32", "[3,0]", "[0,0]") + "," + tensor("x", "X9", "[0]", "[0,0]") + "}",
      4);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->find("z")->num_elements(), 0);
  EXPECT_TRUE(file->find("z")->data.empty());
  const auto matrix = as_float_matrix(*file->find("z"));
  ASSERT_TRUE(matrix.is_ok());
  EXPECT_EQ(matrix->rows, 0);
  EXPECT_EQ(matrix->cols, 8);
}

TEST(Safetensors, UnknownDTypesPassThrough) {
  const auto bytes = one_tensor("MX_NEW", "[7,9]", "[0,5]", 5);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  EXPECT_EQ(file->tensors()[0].dtype, "MX_NEW");
  EXPECT_EQ(file->tensors()[0].data.size(), 5u);
}

TEST(Safetensors, FloatMatrices) {
  const auto bytes = safetensors(
      "{" + tensor("b", "BF16", "[2,3,4]", "[0,48]") + "," + tensor("h", "F16", "[5]", "[48,58]") +
          "," + tensor("f", "F32", "[2,1]", "[58,66]") + "," + tensor("s", "F32", "[]", "[66,70]") +
          "," + tensor("d", "F64", "[1,1]", "[70,78]") + "}",
      78);
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  struct Expected {
    const char* name;
    DType dtype;
    std::int64_t rows, cols;
  };
  for (const Expected& e : {Expected{"b", DType::bf16, 6, 4}, Expected{"h", DType::f16, 1, 5},
                            Expected{"f", DType::f32, 2, 1}}) {
    const auto matrix = as_float_matrix(*file->find(e.name));
    ASSERT_TRUE(matrix.is_ok()) << matrix.status().c_str();
    EXPECT_EQ(matrix->dtype, e.dtype);
    EXPECT_EQ(matrix->rows, e.rows);
    EXPECT_EQ(matrix->cols, e.cols);
    EXPECT_EQ(matrix->row_stride, e.cols);
    EXPECT_EQ(matrix->data, file->find(e.name)->data.data());
  }
  EXPECT_EQ(as_float_matrix(*file->find("s")).status().code(), StatusCode::bad_data);
  const Status wrong = as_float_matrix(*file->find("d")).status();
  EXPECT_EQ(wrong.code(), StatusCode::unsupported);
  EXPECT_EQ(wrong.message(), "tensor 'd': F64 of shape [1, 1], needs to be F32, F16 or BF16");
}

TEST(Safetensors, ByteViews) {
  std::string header = "{";
  const std::vector<std::string> dtypes{"U8", "I8", "F8_E8M0", "F4", "BOOL", "BF16", "X1"};
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const std::string shape = dtypes[i] == "F4" ? "[4]" : dtypes[i] == "BF16" ? "[1]" : "[2]";
    header += (i == 0 ? "" : ",") +
              tensor(dtypes[i], dtypes[i], shape,
                     "[" + std::to_string(2 * i) + "," + std::to_string(2 * i + 2) + "]");
  }
  const auto bytes = safetensors(header + "}", 2 * dtypes.size());
  const auto file = parse(bytes);
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  for (const std::string& dtype : dtypes) {
    const bool typed = dtype != "BOOL" && dtype != "BF16" && dtype != "X1";
    const auto view = io::as_bytes(*file->find(dtype));
    EXPECT_EQ(view.is_ok(), typed) << dtype;
    if (typed) {
      EXPECT_EQ(view->data(), file->find(dtype)->data.data());
    } else {
      EXPECT_EQ(view.status().code(), StatusCode::unsupported);
    }
  }
}

TEST(Safetensors, SystemErrors) {
  const TempFolder folder;
  const Status missing = SafetensorsFile::open(folder / "none").status();
  EXPECT_EQ(missing.code(), StatusCode::io_error);
  EXPECT_NE(missing.message().find("none: cannot open: No such file"), std::string::npos);
  const Status is_folder = SafetensorsFile::open(folder.path()).status();
  EXPECT_EQ(is_folder.code(), StatusCode::io_error);
  EXPECT_NE(is_folder.message().find("is a folder"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(SafetensorsFile::open(folder / "pipe").status().code(), StatusCode::io_error);
  put(folder / "empty", "");
  EXPECT_EQ(SafetensorsFile::open(folder / "empty").status().code(), StatusCode::bad_data);
}

TEST(Safetensors, OffsetsBeyond32Bits) {
  const TempFolder folder;
  constexpr std::uint64_t kFirst = 5ull << 30;
  const std::string header =
      safetensors("{" + tensor("big", "U8", "[5,1073741824]", "[0,5368709120]") + "," +
                  tensor("last", "F32", "[2]", "[5368709120,5368709128]") + "}");
  put(folder / "f", header);
  // Sparse: only the last page takes space.
  ASSERT_EQ(::truncate((folder / "f").c_str(), static_cast<off_t>(header.size() + kFirst)), 0);
  {
    std::ofstream file(folder / "f", std::ios::binary | std::ios::app);
    file << "12345678";
  }
  const auto file = SafetensorsFile::open(folder / "f");
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  EXPECT_EQ(file->find("big")->data.size(), kFirst);
  EXPECT_EQ(file->find("big")->data[kFirst - 1], 0);
  EXPECT_EQ(text_of(file->find("last")->data), "12345678");
  file->release(*file->find("big"));
  EXPECT_EQ(text_of(file->find("last")->data), "12345678");
}

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Safetensors, ReleaseFreesMemoryAndKeepsContents) {
  const TempFolder folder;
  constexpr std::size_t kBytes = 32u << 20;
  const std::string bytes = one_tensor("U8", "[33554432]", "[0,33554432]", kBytes);
  put(folder / "f", bytes);
  const auto file = SafetensorsFile::open(folder / "f");
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  const TensorView& t = file->tensors()[0];
  const auto matches = [&] {
    return std::equal(t.data.begin(), t.data.end(), bytes_of(bytes).end() - kBytes);
  };
  EXPECT_TRUE(matches());
  const std::size_t before = resident_bytes();
  file->release(t);
  EXPECT_GT(before, resident_bytes() + kBytes / 2);
  EXPECT_TRUE(matches());
}

TEST(Safetensors, KeepAliveHoldsTheMapping) {
  const TempFolder folder;
  put(folder / "f", one_tensor("U8", "[4]", "[0,4]", 4));
  std::shared_ptr<const void> alive;
  std::span<const std::uint8_t> data;
  {
    const auto file = SafetensorsFile::open(folder / "f");
    ASSERT_TRUE(file.is_ok()) << file.status().c_str();
    alive = file->keep_alive();
    data = file->tensors()[0].data;
  }
  std::filesystem::remove(folder / "f");
  EXPECT_EQ(text_of(data), std::string("\x01\x26\x4B\x70"));
}

TEST(Safetensors, TensorBytes) {
  EXPECT_EQ(*tensor_bytes("F4", std::vector<std::int64_t>{3, 2}), 3u);
  EXPECT_EQ(*tensor_bytes("F6_E3M2", std::vector<std::int64_t>{4}), 3u);
  EXPECT_EQ(*tensor_bytes("C64", {}), 8u);
  EXPECT_EQ(*tensor_bytes("I64", std::vector<std::int64_t>{0, 1}), 0u);
  EXPECT_EQ(tensor_bytes("X", {}).status().code(), StatusCode::unsupported);
  EXPECT_EQ(tensor_bytes("U8", std::vector<std::int64_t>{-1}).status().code(),
            StatusCode::bad_data);
  EXPECT_EQ(shape_string({}), "[]");
  EXPECT_EQ(shape_string(std::vector<std::int64_t>{2880, 1440}), "[2880, 1440]");
  EXPECT_EQ(shape_string(std::vector<std::int64_t>(20, 1)),
            "[1, 1, 1, 1, 1, 1, 1, 1, ... 20 dimensions]");
}

}  // namespace
}  // namespace mxgemm::io
