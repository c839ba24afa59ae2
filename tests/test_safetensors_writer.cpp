// Writing: round trips, refusals, and that an interrupted write leaves nothing behind.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>

#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "io_corpus/temp_folder.h"

namespace mxgemm::io {
namespace {

using namespace io_corpus;

std::string pattern(std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(i * 131 + size);
  return out;
}

Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                 const std::vector<TensorSpec>& specs, const Metadata& meta = {}) {
  return SafetensorsWriter::create(path, specs, meta);
}

TEST(SafetensorsWriter, EveryDTypeRoundTrips) {
  const TempFolder folder;
  std::vector<TensorSpec> specs;
  for (const char* dtype :
       {"F64",         "F32",         "F16", "BF16",    "I64",     "I32",     "I16",     "I8",
        "U64",         "U32",         "U16", "U8",      "BOOL",    "F8_E4M3", "F8_E5M2", "F8_E8M0",
        "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",  "F6_E2M3", "F6_E3M2", "C64"}) {
    ASSERT_GT(dtype_bits(dtype), 0) << dtype;
    specs.push_back({std::string("t.") + dtype, dtype, {2, 3, 4}});
    specs.push_back({std::string("empty.") + dtype, dtype, {0, 4}});
    specs.push_back({std::string("vector.") + dtype, dtype, {8}});
    if (dtype_bits(dtype) >= 8) specs.push_back({std::string("scalar.") + dtype, dtype, {}});
  }
  specs.push_back({"unknown", "Q3_K", {5, 5}, 11});
  std::string data;
  for (const TensorSpec& spec : specs) {
    data += pattern(
        spec.num_bytes.value_or(spec.num_bytes ? 0 : tensor_bytes(spec.dtype, spec.shape).value()));
  }
  const Metadata metadata{
      {"mxgemm.version", "0.1.0"}, {"quote\"\\\n\x01\u00e9", "\t\"\x1f"}, {"", ""}};
  auto writer = create(folder / "out", specs, metadata);
  ASSERT_TRUE(writer.is_ok()) << writer.status().c_str();
  // In uneven pieces: nothing says that a write is a tensor.
  for (std::size_t at = 0, piece = 1; at < data.size(); at += piece, piece = piece * 2 + 1) {
    piece = std::min(piece, data.size() - at);
    ASSERT_TRUE(writer->write(bytes_of(std::string_view(data).substr(at, piece))).is_ok());
  }
  ASSERT_TRUE(writer->commit().is_ok());
  EXPECT_EQ(folder.names(), std::set<std::string>{"out"});

  const auto file = SafetensorsFile::open(folder / "out");
  ASSERT_TRUE(file.is_ok()) << file.status().c_str();
  EXPECT_EQ(file->header_bytes() % 8, 0u);
  EXPECT_EQ(file->metadata(), metadata);
  EXPECT_EQ(file->tensors().size(), specs.size());
  std::size_t at = 0;
  for (const TensorSpec& spec : specs) {
    const TensorView* const tensor = file->find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_EQ(tensor->dtype, spec.dtype);
    EXPECT_EQ(tensor->shape, spec.shape);
    EXPECT_EQ(text_of(tensor->data), data.substr(at, tensor->data.size())) << spec.name;
    at += tensor->data.size();
  }
  EXPECT_EQ(at, data.size());
}

TEST(SafetensorsWriter, KeepsTheOrderGiven) {
  const TempFolder folder;
  auto writer = create(folder / "out", {{"z", "U8", {1}}, {"a", "F64", {1}}, {"m", "U8", {1}}});
  ASSERT_TRUE(writer.is_ok()) << writer.status().c_str();
  ASSERT_TRUE(writer->write(bytes_of("0123456789")).is_ok());
  ASSERT_TRUE(writer->commit().is_ok());
  const std::string text = get(folder / "out");
  const std::string members = R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("a":{"dtype":"F64","shape":[1],"data_offsets":[1,9]},)"
                              R"("m":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})";
  EXPECT_EQ(text.substr(8, members.size()), members);
  EXPECT_TRUE(text.ends_with("0123456789"));
}

TEST(SafetensorsWriter, OffsetsBeyond32Bits) {
  const std::vector<TensorSpec> specs{{"a", "BF16", {1 << 20, 1 << 20}}, {"b", "F4", {2}}};
  const auto header = build_header(specs, {}, "f");
  ASSERT_TRUE(header.is_ok()) << header.status().c_str();
  EXPECT_NE(header->bytes.find("[0,2199023255552]"), std::string::npos);
  EXPECT_NE(header->bytes.find("[2199023255552,2199023255553]"), std::string::npos);
  const std::vector<TensorSpec> too_much{{"a", "U8", {std::int64_t{1} << 62}},
                                         {"b", "U8", {std::int64_t{1} << 62}}};
  EXPECT_EQ(build_header(too_much, {}, "f").status().code(), StatusCode::invalid_argument);
}

TEST(SafetensorsWriter, RefusesWrongTensors) {
  const TempFolder folder;
  struct Wrong {
    std::vector<TensorSpec> specs;
    Metadata metadata;
    const char* expected;
  };
  const std::vector<Wrong> cases{
      {{{"", "U8", {1}}}, {}, "empty name"},
      {{{"__metadata__", "U8", {1}}}, {}, "name of the metadata"},
      {{{"a", "U8", {1}}, {"b", "U8", {1}}, {"a", "U8", {2}}}, {}, "tensor 'a' is given twice"},
      {{{"\xFF", "U8", {1}}}, {}, "tensor '\\xff' has a name that is not UTF-8"},
      {{{"a", "", {1}}}, {}, "has dtype ''"},
      {{{"a", "Q4", {1}}}, {}, "num_bytes has to say it"},
      {{{"a", "F32", {2}, 4}}, {}, "num_bytes is 4, shape [2] needs 8"},
      {{{"a", "F4", {3}}}, {}, "does not fill whole bytes"},
      {{{"a", "U8", {-1}}}, {}, "negative dimension"},
      {{{"a", "F64", {std::int64_t{1} << 61}}}, {}, "more bytes than 63 bits"},
      {{{"a", "U8", {1}}}, {{"k", "\xC0"}}, "metadata 'k' is not UTF-8"},
  };
  for (const Wrong& wrong : cases) {
    const Status status = create(folder / "out", wrong.specs, wrong.metadata).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << wrong.expected;
    EXPECT_NE(status.message().find(wrong.expected), std::string::npos) << status.c_str();
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(SafetensorsWriter, RefusesWrongPaths) {
  const TempFolder folder;
  EXPECT_EQ(create(folder.path(), {}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(create(folder / "", {}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(create("", {}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(create(folder / "none/out", {}).status().code(), StatusCode::io_error);
  EXPECT_TRUE(folder.names().empty());
}

TEST(SafetensorsWriter, CountsBytes) {
  const TempFolder folder;
  auto writer = create(folder / "out", {{"a", "U8", {2}}, {"e", "U8", {0}}, {"b", "U8", {3}}});
  ASSERT_TRUE(writer.is_ok()) << writer.status().c_str();
  ASSERT_TRUE(writer->write(bytes_of("123")).is_ok());
  const Status early = writer->commit();
  EXPECT_EQ(early.code(), StatusCode::invalid_argument);
  EXPECT_NE(early.message().find("only 3 of 5 bytes of data were written, tensor 'b' is not"),
            std::string::npos)
      << early.c_str();
  EXPECT_EQ(writer->write(bytes_of("456")).code(), StatusCode::invalid_argument);
  ASSERT_TRUE(writer->write(bytes_of("45")).is_ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  ASSERT_TRUE(writer->commit().is_ok());
  EXPECT_FALSE(writer->commit().is_ok());
  EXPECT_TRUE(get(folder / "out").ends_with("12345"));
}

TEST(SafetensorsWriter, InterruptedLeavesNothing) {
  const TempFolder folder;
  put(folder / "old", "as it was");
  for (const char* name : {"new", "old"}) {
    auto writer = create(folder / name, {{"a", "U8", {4}}});
    ASSERT_TRUE(writer.is_ok()) << writer.status().c_str();
    ASSERT_TRUE(writer->write(bytes_of("1234")).is_ok());
    EXPECT_EQ(folder.names().size(), 2u);
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"old"});
  EXPECT_EQ(get(folder / "old"), "as it was");
}

TEST(SafetensorsWriter, MovesAndReplaces) {
  const TempFolder folder;
  put(folder / "out", "old");
  auto first = create(folder / "out", {});
  auto second = create(folder / "out", {{"a", "U8", {1}}});
  ASSERT_TRUE(first.is_ok() && second.is_ok());
  *first = std::move(*second);
  ASSERT_TRUE(first->write(bytes_of("x")).is_ok());
  ASSERT_TRUE(first->commit().is_ok());
  EXPECT_TRUE(SafetensorsFile::open(folder / "out").is_ok());
  EXPECT_EQ(folder.names(), std::set<std::string>{"out"});
}

// A limit on the size of files stands in for a full disk: write(2) fails half-way.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

TEST(SafetensorsWriter, FullDiskLeavesNothing) {
  const TempFolder folder;
  const std::string source(3u << 20, 's');
  put(folder / "source", source);
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{2} << 20}) {
    auto writer = create(folder / "out", {{"a", "U8", {3 << 20}}});
    ASSERT_TRUE(writer.is_ok()) << writer.status().c_str();
    const FullDisk full(1u << 20);
    Status status;
    for (std::size_t at = 0; at < source.size() && status.is_ok(); at += piece) {
      status = writer->write(bytes_of(std::string_view(source).substr(at, piece)));
    }
    EXPECT_EQ(status.code(), StatusCode::io_error);
    EXPECT_NE(status.message().find("out: cannot write: File too large"), std::string::npos)
        << status.c_str();
    EXPECT_EQ(folder.names(), std::set<std::string>{"source"});  // at once, not at destruction
    EXPECT_FALSE(writer->commit().is_ok());
  }
  {
    const FullDisk full(1u << 20);
    EXPECT_EQ(io::copy_file(folder / "source", folder / "copy").code(), StatusCode::io_error);
    EXPECT_EQ(write_file(folder / "text", source).code(), StatusCode::io_error);
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"source"});
}

TEST(AtomicFile, CopiesAndWrites) {
  const TempFolder folder;
  const std::string contents = pattern(40'000'000);
  put(folder / "from", contents);
  std::filesystem::create_symlink(folder / "from", folder / "link");
  ASSERT_TRUE(io::copy_file(folder / "link", folder / "to").is_ok());
  EXPECT_TRUE(get(folder / "to") == contents);
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "to"));
  ASSERT_TRUE(write_file(folder / "to", "short").is_ok());
  EXPECT_EQ(get(folder / "to"), "short");
  ASSERT_TRUE(write_file(folder / "none", "").is_ok());
  ASSERT_TRUE(io::copy_file(folder / "none", folder / "to").is_ok());
  EXPECT_EQ(get(folder / "to"), "");
  EXPECT_EQ(io::copy_file(folder / "missing", folder / "x").code(), StatusCode::io_error);
  EXPECT_EQ(folder.names(), (std::set<std::string>{"from", "link", "none", "to"}));
}

TEST(AtomicFile, HonoursTheUmask) {
  const TempFolder folder;
  for (const auto& [mask, mode] : {std::pair{022u, 0644u}, std::pair{077u, 0600u}}) {
    const mode_t old = ::umask(mask);
    EXPECT_TRUE(write_file(folder / "f", "x").is_ok());
    ::umask(old);
    struct stat info {};
    ASSERT_EQ(::stat((folder / "f").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, mode);
  }
}

}  // namespace
}  // namespace mxgemm::io
