// GGUF files: what is refused, what is legal, what a tensor gives, and what is written.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "io/gguf_header.h"
#include "io_corpus/check_malformed.h"
#include "io_corpus/gguf.h"
#include "io_corpus/temp_folder.h"
#include "testing.h"

namespace mxgemm::io {
namespace {

namespace corpus = io_corpus;
using corpus::bytes_of;
using corpus::gguf_entry;
using corpus::gguf_one_tensor;
using corpus::gguf_tensor;
using corpus::little_endian;
using corpus::text_of;

Result<GgufFile> parse(std::string_view bytes) {
  return GgufFile::parse(bytes_of(bytes), "some.file");
}

TEST(Gguf, MalformedFilesHaveTheirOwnErrors) {
  corpus::check_malformed(corpus::malformed_ggufs(), 60,
                          [](std::string_view bytes) { return parse(bytes).status(); });
}

TEST(Gguf, OtherVersionsAndTypesAreUnsupported) {
  constexpr auto kUnsupported = StatusCode::unsupported;
  EXPECT_ERROR(parse(corpus::gguf({.version = 1})), kUnsupported, "is GGUF of version 1, needs");
  EXPECT_ERROR(parse(corpus::gguf({.version = 4})), kUnsupported, "is GGUF of version 4, needs");
  EXPECT_ERROR(parse(corpus::gguf({.version = 0})), kUnsupported, "is GGUF of version 0, needs");
  EXPECT_ERROR(parse(corpus::gguf({.version = 0x03000000})), kUnsupported,
               "some.file: is GGUF of version 3 in big-endian");
  for (const int type : {4, 5, 31, 33, 38, 42, 1000}) {
    EXPECT_ERROR(parse(gguf_one_tensor({256}, type, 32)), kUnsupported,
                 "some.file: tensor 'a': ggml type " + std::to_string(type) + " is unknown");
  }
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string whole =
      corpus::gguf({.entries = {gguf_entry("general.name", 8, corpus::gguf_text("n")),
                                gguf_entry("k", 9, corpus::gguf_array(4, 2, "abcdefgh"))},
                    .tensors = {gguf_tensor("a", {32, 2}, 39, 0), gguf_tensor("b", {3}, 0, 64)},
                    .data_bytes = 64 + 12});
  ASSERT_OK(parse(whole));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(parse(whole.substr(0, n)).status().code(), StatusCode::bad_data) << n;
  }
}

TEST(Gguf, LegalFilesAreRead) {
  for (const auto& legal : corpus::legal_ggufs()) {
    EXPECT_TRUE(parse(legal.bytes).is_ok())
        << legal.name << ": " << parse(legal.bytes).status().c_str();
  }
  const std::string several = corpus::legal_ggufs().back().bytes;
  const auto file = parse(several);
  ASSERT_OK(file);
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 8u);
  EXPECT_EQ(file->file_bytes(), several.size());
  ASSERT_EQ(file->tensors().size(), 3u);
  const GgufTensor* const a = file->find("a.weight");
  ASSERT_EQ(a, &file->tensors()[1]);
  EXPECT_EQ(a->type->name, "MXFP4");
  EXPECT_EQ(std::vector(a->shape().begin(), a->shape().end()), (std::vector<std::int64_t>{1, 32}));
  EXPECT_EQ(text_of(a->data), several.substr(several.size() - 48, 17));
  EXPECT_EQ(text_of(file->find("b")->data), several.substr(several.size() - 24, 12));
  EXPECT_EQ(file->find("a"), nullptr);
  ASSERT_NE(file->find_metadata("general.alignment"), nullptr);
  EXPECT_EQ(file->find_metadata("general"), nullptr);
  EXPECT_EQ(parse(corpus::gguf({.version = 2}))->version(), 2u);
}

TEST(Gguf, MetadataKeepsTypeAndBytes) {
  const std::string bytes = corpus::gguf(
      {.entries = {gguf_entry("z", 8, corpus::gguf_text("te\xFFxt")), gguf_entry("a", 7, "\x01"),
                   gguf_entry("list", 9, corpus::gguf_array(2, 2, "abcd"))}});
  const auto file = parse(bytes);
  ASSERT_OK(file);
  ASSERT_EQ(file->metadata().size(), 3u);
  EXPECT_EQ(file->metadata()[0].key, "z");
  EXPECT_EQ(gguf_text(file->metadata()[0]), "te\xFFxt");
  EXPECT_EQ(gguf_text(file->metadata()[1]), "");
  EXPECT_EQ(file->metadata()[1].type, GgufValueType::boolean);
  EXPECT_EQ(text_of(file->metadata()[2].value), little_endian(2, 4) + little_endian(2, 8) + "abcd");
}

// Codes and scales arrive where they belong: against blocks built here, element by element.
TEST(Gguf, Mxfp4TensorsAreWeightsWithoutACopy) {
  constexpr std::int64_t kE = 2, kN = 3, kK = 96;
  const testing::HostMxfp4 want = testing::random_mxfp4(kE * kN, kK, 7, {0, 100, 127, 200, 255});
  std::string blocks;
  for (std::int64_t r = 0; r < kE * kN; ++r) {
    for (std::int64_t b = 0; b < kK / 32; ++b) {
      blocks += static_cast<char>(want.scale(r, b));
      for (std::int64_t j = 0; j < 16; ++j) {
        blocks += static_cast<char>(want.code(r, 32 * b + j) | want.code(r, 32 * b + j + 16) << 4);
      }
    }
  }
  std::string bytes =
      corpus::gguf({.tensors = {gguf_tensor("w", {96, 3, 2}, 39, 0)}, .data_bytes = blocks.size()});
  bytes.replace(bytes.size() - blocks.size(), blocks.size(), blocks);
  const corpus::TempFolder folder;
  corpus::put(folder / "f", bytes);
  std::optional<Weights> weights;
  {
    const auto file = GgufFile::open(folder / "f");
    ASSERT_OK(file);
    const GgufTensor& tensor = file->tensors()[0];
    auto made = file->weights(tensor);
    ASSERT_OK(made);
    EXPECT_EQ(made->codes().data(), tensor.data.data());
    weights = *made;
  }
  // The file is closed: the weights keep its mapping.
  EXPECT_EQ(weights->layout(), Layout::gguf_mxfp4);
  EXPECT_EQ(weights->num_experts(), kE);
  EXPECT_EQ(weights->n(), kN);
  EXPECT_EQ(weights->k(), kK);
  testing::HostMxfp4 got(kE * kN, kK);
  ASSERT_OK(weights->copy_row_major(got.buffer()));
  EXPECT_EQ(got.codes, want.codes);
  EXPECT_EQ(got.scales, want.scales);
}

TEST(Gguf, WeightsAndMatricesOfOtherTensorsAreRefused) {
  const std::string f32 = gguf_one_tensor({4, 2}, 0, 32);
  const auto floats = parse(f32);
  ASSERT_OK(floats);
  const auto matrix = floats->float_matrix(floats->tensors()[0]);
  ASSERT_OK(matrix);
  EXPECT_EQ(matrix->dtype, DType::f32);
  EXPECT_EQ(matrix->rows, 2);
  EXPECT_EQ(matrix->cols, 4);
  EXPECT_EQ(matrix->data, floats->tensors()[0].data.data());
  EXPECT_ERROR(floats->weights(floats->tensors()[0]), StatusCode::unsupported,
               "some.file: tensor 'a' is F32 of shape [2, 4], needs to be MXFP4");
  for (const int type : {1, 30}) {
    const std::string half = gguf_one_tensor({4, 2}, type, 16);
    const auto file = parse(half);
    const auto m = file->float_matrix(file->tensors()[0]);
    ASSERT_OK(m);
    EXPECT_EQ(m->dtype, type == 1 ? DType::f16 : DType::bf16);
  }
  const std::string q8 = gguf_one_tensor({32}, 8, 34), scalar = gguf_one_tensor({}, 0, 4);
  const auto other = parse(q8), single = parse(scalar);
  EXPECT_ERROR(other->float_matrix(other->tensors()[0]), StatusCode::unsupported,
               "'a' is Q8_0 of shape [32], needs to be F32, F16 or BF16");
  EXPECT_ERROR(single->float_matrix(single->tensors()[0]), StatusCode::unsupported,
               "at least one dimension");
  const std::string rank4 = gguf_one_tensor({32, 1, 1, 2}, 39, 34);
  const std::string none = gguf_one_tensor({32, 0}, 39, 0);
  const std::string row = gguf_one_tensor({64}, 39, 34);
  for (const std::string* bytes : {&rank4, &none}) {
    const auto file = parse(*bytes);
    ASSERT_OK(file);
    EXPECT_ERROR(file->weights(file->tensors()[0]), StatusCode::unsupported,
                 "needs to be [K], [N, K] or [E, N, K] without a 0");
  }
  const auto vector = parse(row);
  const auto one_row = vector->weights(vector->tensors()[0]);
  ASSERT_OK(one_row);
  EXPECT_EQ(one_row->n(), 1);
  EXPECT_EQ(one_row->k(), 64);
}

TEST(Gguf, TheMagicDecides) {
  const corpus::TempFolder folder;
  corpus::put(folder / "a.safetensors", corpus::gguf({}));
  corpus::put(folder / "b.gguf", corpus::safetensors("{}"));
  corpus::put(folder / "c.gguf", "GGU");
  EXPECT_TRUE(GgufFile::has_magic(folder / "a.safetensors"));
  EXPECT_FALSE(GgufFile::has_magic(folder / "b.gguf"));
  EXPECT_FALSE(GgufFile::has_magic(folder / "c.gguf"));
  EXPECT_FALSE(GgufFile::has_magic(folder / "none"));
  EXPECT_FALSE(GgufFile::has_magic(folder.path()));
  EXPECT_ERROR(GgufFile::open(folder / "none"), StatusCode::io_error, "none");
}

// Everything of a file through the writer, in pieces of `piece` bytes.
Status rewrite(const GgufFile& file, const std::filesystem::path& path, std::size_t piece) {
  std::vector<GgufTensorSpec> specs;
  std::string data;
  for (const GgufTensor& tensor : file.tensors()) {
    specs.push_back({tensor.name, tensor.type->id, tensor.shape()});
    data += text_of(tensor.data);
  }
  auto writer = GgufWriter::create(path, specs, file.metadata());
  if (!writer.is_ok()) return writer.status();
  for (std::size_t i = 0; i < data.size(); i += piece) {
    const Status status = writer->write(bytes_of(std::string_view(data).substr(i, piece)));
    if (!status.is_ok()) return status;
  }
  return writer->commit();
}

TEST(GgufWriter, WritesWhatWasRead) {
  for (const auto& legal : corpus::legal_ggufs()) {
    const auto file = parse(legal.bytes);
    ASSERT_OK(file);
    std::optional<std::string> first;
    for (const std::size_t piece : {1u, 7u, 1000u}) {
      const corpus::TempFolder folder;
      ASSERT_OK(rewrite(*file, folder / "f", piece));
      EXPECT_EQ(folder.names(), std::set<std::string>{"f"});
      const std::string bytes = corpus::get(folder / "f");
      EXPECT_EQ(bytes, first.value_or(bytes)) << "depends on the pieces";
      first = bytes;
      EXPECT_EQ(bytes.size() % file->alignment(), 0u);
      const auto again = parse(bytes);
      ASSERT_OK(again);
      EXPECT_EQ(again->version(), 3u);
      EXPECT_EQ(again->alignment(), file->alignment());
      ASSERT_EQ(again->tensors().size(), file->tensors().size());
      for (std::size_t i = 0; i < file->tensors().size(); ++i) {
        const GgufTensor &a = file->tensors()[i], &b = again->tensors()[i];
        EXPECT_EQ(a.name, b.name);
        EXPECT_EQ(a.type, b.type);
        EXPECT_EQ(a.rank, b.rank);
        EXPECT_EQ(a.dims, b.dims);
        EXPECT_EQ(text_of(a.data), text_of(b.data));
      }
      ASSERT_EQ(again->metadata().size(), file->metadata().size());
      for (std::size_t i = 0; i < file->metadata().size(); ++i) {
        const GgufEntry &a = file->metadata()[i], &b = again->metadata()[i];
        EXPECT_EQ(a.key, b.key);
        EXPECT_EQ(a.type, b.type);
        EXPECT_EQ(text_of(a.value), text_of(b.value));
      }
    }
  }
}

TEST(GgufWriter, RefusesWhatNoReaderWouldTake) {
  const corpus::TempFolder folder;
  const std::vector<std::int64_t> row = {32}, five = {1, 1, 1, 1, 1}, negative = {-32},
                                  huge = {std::int64_t{1} << 62, 2};
  const std::string word = gguf_u32(7), text = gguf_string("x"), long_key(65'536, 'k');
  const auto tensor = [&](std::string_view name, std::uint32_t type, const auto& shape) {
    const std::vector<GgufTensorSpec> specs = {{name, type, shape}};
    return GgufWriter::create(folder / "f", specs, {}).status();
  };
  const auto entry = [&](std::string_view key, GgufValueType type, std::string_view value) {
    const std::vector<GgufEntry> entries = {{key, type, bytes_of(value)}};
    return GgufWriter::create(folder / "f", {}, entries).status();
  };
  constexpr auto kBad = StatusCode::invalid_argument;
  EXPECT_ERROR(tensor("", 0, row), kBad, "a tensor name to write is empty");
  EXPECT_ERROR(tensor("\xFF", 0, row), kBad, "tensor name '\\xff' is not UTF-8");
  EXPECT_ERROR(tensor("w", 38, row), kBad, "tensor 'w': ggml type 38 is unknown");
  EXPECT_ERROR(tensor("w", 12, row), kBad, "tensor 'w': rows have 32 elements, Q4_K needs");
  EXPECT_ERROR(tensor("w", 0, five), kBad, "has 5 dimensions");
  EXPECT_ERROR(tensor("w", 0, negative), kBad, "[-32] has a negative dimension");
  EXPECT_ERROR(tensor("w", 0, huge), kBad, "more elements than 63 bits");
  EXPECT_ERROR(entry("", GgufValueType::u32, word), kBad, "a metadata key to write is empty");
  EXPECT_ERROR(entry(long_key, GgufValueType::u32, word), kBad, "65536 bytes, at most");
  EXPECT_ERROR(entry("k", GgufValueType::u64, word), kBad, "'k': ends inside a value");
  EXPECT_ERROR(entry("k", GgufValueType::u8, word), kBad, "3 bytes more than the value has");
  EXPECT_ERROR(entry("k", GgufValueType::boolean, "\x07"), kBad, "a bool is 7");
  EXPECT_ERROR(entry("k", static_cast<GgufValueType>(13), word), kBad, "has type 13");
  EXPECT_ERROR(entry("general.alignment", GgufValueType::u32, word), kBad, "is 7, needs");
  EXPECT_ERROR(entry("general.alignment", GgufValueType::string, text), kBad, "needs to be u32");
  const std::vector<GgufTensorSpec> twice = {{"w", 0, row}, {"w", 0, row}};
  EXPECT_ERROR(GgufWriter::create(folder / "f", twice, {}), kBad, "'w' is given twice");
  const std::vector<std::int64_t> large = {std::int64_t{1} << 60};
  const std::vector<GgufTensorSpec> sum = {{"a", 0, large}, {"b", 0, large}};
  EXPECT_ERROR(GgufWriter::create(folder / "f", sum, {}), kBad, "'b': up to here");
  EXPECT_EQ(folder.names(), std::set<std::string>{});
}

TEST(GgufWriter, CountsTheBytes) {
  const corpus::TempFolder folder;
  const std::vector<std::int64_t> row = {32}, none = {0};
  const std::vector<GgufTensorSpec> specs = {
      {"none", 0, none}, {"a", kGgmlMXFP4, row}, {"b", kGgmlF16, row}};
  {
    auto writer = GgufWriter::create(folder / "f", specs, {});
    ASSERT_OK(writer);
    EXPECT_ERROR(writer->commit(), StatusCode::invalid_argument, "tensor 'a' is not complete");
    ASSERT_OK(writer->write(bytes_of(std::string(17 + 63, 'x'))));
    EXPECT_ERROR(writer->commit(), StatusCode::invalid_argument,
                 "only 80 of 81 bytes of data were written, tensor 'b' is not complete");
    EXPECT_ERROR(writer->write(bytes_of("xy")), StatusCode::invalid_argument,
                 "after 80 bytes of data 2 more are given, the tensors have 81 in all");
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{}) << "an unfinished file is left behind";
}

}  // namespace
}  // namespace mxgemm::io
