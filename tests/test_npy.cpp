// .npy: malformed files, the three versions, every type written and read.
#include "io/npy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io_corpus/check_malformed.h"
#include "io_corpus/temp_folder.h"

namespace mxgemm::io {
namespace {

using namespace io_corpus;

Result<NpyArray> parse(std::string_view bytes) {
  return parse_npy(bytes_of(bytes), "some.file");
}

TEST(Npy, MalformedFilesHaveTheirOwnErrors) {
  check_malformed(malformed_npys(), 45,
                  [](std::string_view bytes) { return parse(bytes).status(); });
}

TEST(Npy, EveryTruncationOfAFileIsRefused) {
  const std::string whole = npy(npy_dict("'<u2'", "False", "(2, 3)"), 12);
  ASSERT_TRUE(parse(whole).is_ok());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(parse(whole.substr(0, n)).status().code(), StatusCode::bad_data) << n;
  }
}

TEST(Npy, ReadsVersions1To3) {
  for (const int version : {1, 2, 3}) {
    const std::string bytes = npy(npy_dict("'<f4'", "False", "(2, 1)") + "  \n", 8, version);
    const auto array = parse(bytes);
    ASSERT_TRUE(array.is_ok()) << array.status().c_str();
    EXPECT_EQ(array->type, NpyType::f4);
    EXPECT_EQ(array->shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(text_of(array->data), bytes.substr(bytes.size() - 8));
  }
}

TEST(Npy, ReadsOtherSpellings) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes{
      {"()", {}},        {"(4,)", {4}},       {"(4 , )", {4}},
      {"(2,2)", {2, 2}}, {"(2, 2,)", {2, 2}}, {"(1, 1, 4)", {1, 1, 4}}};
  for (const auto& [text, shape] : shapes) {
    const auto array = parse(npy(npy_dict("'|u1'", "False", text), shape.empty() ? 1 : 4));
    ASSERT_TRUE(array.is_ok()) << text << array.status().c_str();
    EXPECT_EQ(array->shape, shape);
  }
  EXPECT_TRUE(parse(npy(R"({"shape":(1,),"fortran_order":False,"descr":"=f4"})", 4)).is_ok());
  EXPECT_TRUE(parse(npy(npy_dict("'<i1'", "False", "(0, 7)"), 0)).is_ok());
  EXPECT_TRUE(parse(npy(npy_dict("'>u1'", "False", "(2,)"), 2)).status().message().find("descr") !=
              std::string_view::npos);
}

TEST(Npy, EveryTypeRoundTrips) {
  const TempFolder folder;
  for (const NpyType type : {NpyType::f2, NpyType::f4, NpyType::f8, NpyType::u1, NpyType::u2,
                             NpyType::i1, NpyType::i4, NpyType::i8}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {7}, {3, 5}, {0, 5}, {2, 3, 4}}) {
      std::int64_t size = size_of(type);
      for (const std::int64_t dim : shape) size *= dim;
      std::vector<std::uint8_t> data;
      for (std::int64_t i = 0; i < size; ++i) data.push_back(static_cast<std::uint8_t>(i * 7));
      ASSERT_TRUE(write_npy(folder / "x.npy", type, shape, data).is_ok());
      const auto array = read_npy(folder / "x.npy");
      ASSERT_TRUE(array.is_ok()) << array.status().c_str();
      EXPECT_EQ(array->type, type);
      EXPECT_EQ(array->shape, shape);
      EXPECT_EQ(array->data, data);
    }
  }
  // What numpy.save writes for numpy.zeros((2, 3), "float16"), byte for byte but for the data.
  const std::vector<std::uint8_t> zeros(12);
  const std::vector<std::int64_t> shape{2, 3};
  ASSERT_TRUE(write_npy(folder / "x.npy", NpyType::f2, shape, zeros).is_ok());
  const std::string dict = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }";
  EXPECT_EQ(get(folder / "x.npy"), std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict +
                                       std::string(117 - dict.size(), ' ') + "\n" +
                                       std::string(12, '\0'));
}

TEST(Npy, RefusesToWrite) {
  const TempFolder folder;
  const std::vector<std::uint8_t> data(8);
  const auto write = [&](const std::vector<std::int64_t>& shape) {
    return write_npy(folder / "x.npy", NpyType::f4, shape, data).code();
  };
  EXPECT_EQ(write({3}), StatusCode::invalid_argument);
  EXPECT_EQ(write({-2}), StatusCode::invalid_argument);
  EXPECT_EQ(write({std::int64_t{1} << 62, 4}), StatusCode::invalid_argument);
  EXPECT_EQ(write_npy(folder / "no/x.npy", NpyType::f4, std::vector<std::int64_t>{2}, data).code(),
            StatusCode::io_error);
  EXPECT_EQ(write_npy(folder.path(), NpyType::f4, std::vector<std::int64_t>{2}, data).code(),
            StatusCode::invalid_argument);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Npy, SystemErrors) {
  const TempFolder folder;
  EXPECT_EQ(read_npy(folder / "none").status().code(), StatusCode::io_error);
  EXPECT_EQ(read_npy(folder.path()).status().code(), StatusCode::io_error);
}

}  // namespace
}  // namespace mxgemm::io
