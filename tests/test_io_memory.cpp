// Whatever a file says, reading it takes no more heap than its size + 64 MB, in one block or in
// all. The heap is counted by our own operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include <malloc.h>

#include "io/checkpoint_index.h"
#include "io/gguf.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io_corpus/bytes.h"
#include "io_corpus/gguf.h"
#include "io_corpus/temp_folder.h"

namespace {

std::atomic<std::size_t> live_bytes{0}, peak_bytes{0}, largest_block{0};

void* counted_new(std::size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  const std::size_t now = live_bytes += ::malloc_usable_size(block);
  if (now > peak_bytes) peak_bytes = now;
  if (size > largest_block) largest_block = size;
  return block;
}

void counted_delete(void* block) noexcept {
  if (block != nullptr) live_bytes -= ::malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted_new(size);
}
void* operator new[](std::size_t size) {
  return counted_new(size);
}
void operator delete(void* block) noexcept {
  counted_delete(block);
}
void operator delete[](void* block) noexcept {
  counted_delete(block);
}
void operator delete(void* block, std::size_t) noexcept {
  counted_delete(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  counted_delete(block);
}

namespace mxgemm::io {
namespace {

using namespace io_corpus;
constexpr std::size_t kAllowance = 64'000'000;

// Runs `read` on bytes; the peak includes whatever it returns, until it is checked.
template <class Read>
Status measure(const char* name, const std::string& bytes, Read read) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  largest_block = 0;
  const Status status = read(bytes);
  EXPECT_LE(peak_bytes - before, bytes.size() + kAllowance) << name;
  EXPECT_LE(largest_block, bytes.size() + kAllowance) << name;
  EXPECT_EQ(live_bytes, before) << name << " leaks";
  return status;
}

Status read_safetensors(const std::string& bytes) {
  return SafetensorsFile::parse(bytes_of(bytes), "f").status();
}
Status read_gguf(const std::string& bytes) {
  return GgufFile::parse(bytes_of(bytes), "f").status();
}
Status read_index(const std::string& bytes) {
  return parse_index(bytes, "f").status();
}
Status read_array(const std::string& bytes) {
  return parse_npy(bytes_of(bytes), "f").status();
}

// "{" + n members + "}"; member(i) without comma.
template <class Member>
std::string object(int n, Member member) {
  std::string out = "{";
  for (int i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    out += member(i);
  }
  return out + "}";
}

std::string empty_tensor(int i, std::string_view shape = "[0]") {
  return tensor("t" + std::to_string(i), "U8", shape, "[0,0]");
}

TEST(IoMemory, CountsTheHeap) {
  const Status status = measure("probe", "", [](const std::string&) {
    const std::string block(1'000'000, 'x');
    return Status::error(StatusCode::bad_data, "%c", block[0]);
  });
  EXPECT_EQ(status.message(), "x");
  EXPECT_GE(largest_block, 1'000'000u);
  EXPECT_LE(largest_block, 1'000'100u);
}

TEST(IoMemory, ManyTensors) {
  const auto plain = [](int i) { return empty_tensor(i); };
  EXPECT_TRUE(measure("100k", safetensors(object(100'000, plain)), read_safetensors).is_ok());
  // About 50 MB of header: its tensors do not fit, and it is refused before they are made.
  EXPECT_EQ(measure("900k", safetensors(object(900'000, plain)), read_safetensors).code(),
            StatusCode::bad_data);
  // Real data behind it pays for as many.
  EXPECT_TRUE(
      measure("900k with data",
              safetensors(object(900'000, plain)
                              .insert(1, tensor("d", "U8", "[99000000]", "[0,99000000]") + ","),
                          99'000'000),
              read_safetensors)
          .is_ok());
  std::string wide = "[0";
  for (int i = 0; i < 63; ++i) wide += ",1";
  const auto rank_64 = [&](int i) { return empty_tensor(i, wide + "]"); };
  EXPECT_EQ(measure("rank 64", safetensors(object(250'000, rank_64)), read_safetensors).code(),
            StatusCode::bad_data);
  EXPECT_TRUE(
      measure("rank 64, few", safetensors(object(20'000, rank_64)), read_safetensors).is_ok());
}

TEST(IoMemory, ManyThingsElse) {
  const auto none = [](int) { return "\"a\":{}"; };
  EXPECT_FALSE(measure("objects", safetensors(object(7'000'000, none)), read_safetensors).is_ok());
  const auto entry = [](int i) { return "\"" + std::to_string(i) + "\":\"\""; };
  EXPECT_FALSE(measure("metadata",
                       safetensors("{\"__metadata__\":" + object(4'000'000, entry) + "}"),
                       read_safetensors)
                   .is_ok());
  std::string ones;
  for (int i = 0; i < 20'000'000; ++i) ones += "1,";
  EXPECT_FALSE(
      measure("dims", safetensors("{\"a\":{\"shape\":[" + ones), read_safetensors).is_ok());
  EXPECT_FALSE(measure("dims", safetensors("{\"a\":{\"shape\":[" + ones + "1]}}"), read_safetensors)
                   .is_ok());
}

TEST(IoMemory, LongTokens) {
  for (const std::size_t size : {4'000'000u, 20'000'000u}) {
    const std::string text(size, 'x'), control(size, '\x01'), space(size, '\n');
    for (const std::string& header :
         {"{\"" + text + "\":{}}", "{\"" + text + "\\ud800\":{}}", "{\"" + text + "\\q\"}",
          "{\"a\":" + std::string(size, '1') + "}", "{" + space + "x}", "{\"" + text + "\"" + space,
          "{\"a\":{" + space + "]}}", "{\"a\":{}" + space + "}", "{\"" + control + "\":{}}",
          "{\"a\":{\"dtype\":\"" + text + "\"}}",
          "{\"__metadata__\":{\"" + text + "\":\"" + text + "\"}} x"}) {
      EXPECT_FALSE(measure("token", safetensors(header), read_safetensors).is_ok());
    }
  }
  std::string valid;
  for (int i = 0; i < 2'000'000; ++i) valid += "\u00e9";
  const auto long_entry = [&](int i) {
    return "\"" + std::to_string(i) + valid + "\":\"" + valid + "\"";
  };
  EXPECT_TRUE(measure("long metadata",
                      safetensors("{\"__metadata__\":" + object(5, long_entry) + "}"),
                      read_safetensors)
                  .is_ok());
}

TEST(IoMemory, Indices) {
  const auto plain = [](int i) { return "\"" + std::to_string(i) + "\":\"s\""; };
  const auto wrap = [](const std::string& map) { return "{\"weight_map\":" + map + "}"; };
  EXPECT_TRUE(measure("1M", wrap(object(1'000'000, plain)), read_index).is_ok());
  EXPECT_FALSE(measure("8M", wrap(object(3'000'000, plain)), read_index).is_ok());
  const auto own_shard = [](int i) {
    const std::string name = std::to_string(i);
    return "\"" + name + "\":\"" + std::string(250 - name.size(), 's') + name + "\"";
  };
  EXPECT_TRUE(measure("shards", wrap(object(4096, own_shard)), read_index).is_ok());
  EXPECT_FALSE(measure("shards", wrap(object(300'000, own_shard)), read_index).is_ok());
  std::string literals = "{\"metadata\":[true";
  for (int i = 0; i < 10'000'000; ++i) literals += ",true";
  EXPECT_FALSE(measure("literals", literals + "],\"weight_map\":{}}", read_index).is_ok());
  const std::string text(4'190'000, 'x');
  EXPECT_FALSE(measure("name", wrap("{\"a\":\"" + text + "\\ud800\"}"), read_index).is_ok());
  EXPECT_FALSE(measure("file", wrap("{\"a\":\"" + text + "\"}"), read_index).is_ok());
}

TEST(IoMemory, GgufRecords) {
  // As small as records can be, so that each takes the most memory for its bytes.
  const auto entries = [](int n) {
    std::string bytes = gguf_counts(0, static_cast<std::uint64_t>(n));
    for (int i = 0; i < n; ++i) bytes += gguf_entry(little_endian(0x40404040u + i % 63, 4), 0, "v");
    return bytes;
  };
  const auto tensors = [](int n, std::size_t data_bytes) {
    std::string bytes = gguf_counts(static_cast<std::uint64_t>(n), 0);
    for (int i = 0; i < n; ++i) bytes += gguf_tensor(std::to_string(i), {0}, 0, 0);
    return bytes + std::string(data_bytes, '\0');
  };
  EXPECT_EQ(measure("entries", entries(3'000'000), read_gguf).code(), StatusCode::bad_data);
  // Nearly as many as are allowed.
  const Status twice = measure("entries", entries(600'000), read_gguf);
  EXPECT_NE(twice.message().find("is there twice"), std::string::npos) << twice.c_str();
  EXPECT_TRUE(measure("tensors", tensors(250'000, 0), read_gguf).is_ok());
  EXPECT_EQ(measure("many tensors", tensors(2'000'000, 0), read_gguf).code(), StatusCode::bad_data);
  for (const int shift : {20, 30, 40, 60}) {
    const std::uint64_t n = std::uint64_t{1} << shift;
    EXPECT_FALSE(measure("tensors", gguf_counts(n, 0, 1'000'000), read_gguf).is_ok());
    EXPECT_FALSE(measure("entries", gguf_counts(0, n, 1'000'000), read_gguf).is_ok());
    for (const int type : {4, 8, 9}) {
      const std::string value = gguf_array(type, n, std::string(1'000'000, '\0'));
      EXPECT_FALSE(measure("array", gguf_one_entry("k", 9, value), read_gguf).is_ok());
    }
    EXPECT_FALSE(measure("data", gguf_one_tensor({n}, 39, 1'000'000), read_gguf).is_ok());
  }
  // Values stay in the file, whatever their number.
  std::string strings;
  for (int i = 0; i < 4'000'000; ++i) strings += std::string(8, '\0');
  EXPECT_TRUE(
      measure("strings", gguf_one_entry("k", 9, gguf_array(8, 4'000'000, strings)), read_gguf)
          .is_ok());
  EXPECT_LT(largest_block, 1'000u);
}

TEST(IoMemory, Arrays) {
  EXPECT_FALSE(
      measure("claims", npy(npy_dict("'<f8'", "False", "(100000000000,)"), 8), read_array).is_ok());
  EXPECT_TRUE(
      measure("large", npy(npy_dict("'|u1'", "False", "(80000000,)"), 80'000'000), read_array)
          .is_ok());
}

}  // namespace
}  // namespace mxgemm::io
