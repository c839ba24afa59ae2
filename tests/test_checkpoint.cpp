// Checkpoints: one file, a folder, a folder with an index that must agree with its files.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "io/checkpoint_index.h"
#include "io/safetensors.h"
#include "io_corpus/check_malformed.h"
#include "io_corpus/temp_folder.h"

namespace mxgemm::io {
namespace {

using namespace io_corpus;

std::string shard(std::string_view first, std::string_view second) {
  return safetensors(
      "{" + tensor(first, "U8", "[2]", "[0,2]") + "," + tensor(second, "U8", "[3]", "[2,5]") + "}",
      5);
}

void put_index(const TempFolder& folder, std::vector<std::pair<std::string, std::string>> map) {
  std::string text = "{\"weight_map\":{";
  for (const auto& [tensor, file] : map) {
    text += (text.ends_with('{') ? "\"" : ",\"") + tensor + "\":\"" + file + "\"";
  }
  put(folder / kIndexFileName, text + "},\"metadata\":{\"total_size\":10,\"x\":[{\"y\":null}]}}");
}

void expect_error(const TempFolder& folder, StatusCode code, std::string_view expected) {
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), code) << status.c_str();
  EXPECT_NE(status.message().find(expected), std::string::npos) << status.c_str();
}

TEST(CheckpointIndex, MalformedOnesHaveTheirOwnErrors) {
  check_malformed(malformed_indices(), 25,
                  [](std::string_view bytes) { return parse_index(bytes, "some.file").status(); });
}

TEST(Checkpoint, OneFile) {
  const TempFolder folder;
  put(folder / "model.safetensors", shard("a", "b"));
  for (const auto& path : {folder / "model.safetensors", folder.path()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().c_str();
    EXPECT_EQ(checkpoint->is_folder(), path == folder.path());
    EXPECT_FALSE(checkpoint->has_index());
    ASSERT_EQ(checkpoint->files().size(), 1u);
    const auto [file, tensor] = checkpoint->find("b");
    EXPECT_EQ(file, checkpoint->files().data());
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->data.size(), 3u);
    EXPECT_EQ(checkpoint->find("c").second, nullptr);
    EXPECT_EQ(checkpoint->find("").first, nullptr);
  }
}

TEST(Checkpoint, ShardsWithIndex) {
  const TempFolder folder;
  put(folder / "s2.safetensors", shard("c", "d"));
  put(folder / "blob", shard("b", "a"));
  std::filesystem::create_symlink("blob", folder / "s1.safetensors");  // as download caches do
  put(folder / "other.safetensors", "not listed, so never read");
  put_index(folder, {{"d", "s2.safetensors"},
                     {"a", "s1.safetensors"},
                     {"b", "s1.safetensors"},
                     {"c", "s2.safetensors"}});
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.is_ok()) << opened.status().c_str();
  const Checkpoint copy = *opened;
  EXPECT_TRUE(copy.has_index());
  ASSERT_EQ(copy.files().size(), 2u);
  EXPECT_EQ(copy.files()[0].name(), (folder / "s1.safetensors").string());
  for (const char* name : {"a", "b", "c", "d"}) {
    const auto [file, tensor] = copy.find(name);
    ASSERT_NE(file, nullptr) << name;
    EXPECT_EQ(tensor, file->find(name));
    EXPECT_EQ(file, &copy.files()[name[0] >= 'c' ? 1 : 0]);
  }
}

TEST(Checkpoint, ShardsWithoutIndex) {
  const TempFolder folder;
  put(folder / "2.safetensors", shard("a", "b"));
  put(folder / "1.safetensors", shard("c", "d"));
  put(folder / "notes.txt", "x");
  std::filesystem::create_directory(folder / "sub.safetensors");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().c_str();
  ASSERT_EQ(checkpoint->files().size(), 2u);
  EXPECT_EQ(checkpoint->files()[0].name(), (folder / "1.safetensors").string());
  EXPECT_EQ(checkpoint->find("b").first, &checkpoint->files()[1]);
}

TEST(Checkpoint, FolderErrors) {
  const TempFolder folder;
  expect_error(folder, StatusCode::bad_data, "neither model.safetensors.index.json nor a file");
  EXPECT_EQ(Checkpoint::open(folder / "none").status().code(), StatusCode::io_error);
  put(folder / "1.safetensors", shard("a", "b"));
  put(folder / "2.safetensors", shard("c", "a"));
  expect_error(folder, StatusCode::bad_data,
               "tensor 'a' is in two files, '1.safetensors' and '2.safetensors'");
  put(folder / "2.safetensors", "short");
  expect_error(folder, StatusCode::bad_data, "2.safetensors: has 5 bytes");
}

TEST(Checkpoint, IndexMustMatchTheFiles) {
  const TempFolder folder;
  put(folder / "1", shard("a", "b"));
  put(folder / "2", shard("c", "d"));
  put_index(folder, {{"a", "1"}, {"b", "1"}, {"c", "3"}, {"d", "3"}});
  expect_error(folder, StatusCode::bad_data, "the index names '3', which is not in the folder");
  put_index(folder, {{"a", "1"}, {"b", "1"}, {"c", "2"}, {"d", "2"}, {"e", "2"}});
  expect_error(folder, StatusCode::bad_data, "tensor 'e' is not in '2', where the index puts it");
  put_index(folder, {{"a", "2"}, {"b", "1"}, {"c", "2"}, {"d", "2"}});
  expect_error(folder, StatusCode::bad_data, "tensor 'a' is not in '2', where the index puts it");
  put_index(folder, {{"a", "1"}, {"b", "1"}, {"c", "2"}});
  expect_error(folder, StatusCode::bad_data, "tensor 'd' of '2' is not listed in the index");
  put_index(folder, {{"a", "1"}, {"b", "1"}, {"a", "2"}});
  expect_error(folder, StatusCode::bad_data, "the index has tensor 'a' twice");
  put(folder / "2", shard("a", "d"));
  put_index(folder, {{"a", "1"}, {"b", "1"}, {"d", "2"}});
  expect_error(folder, StatusCode::bad_data, "tensor 'a' is in two files, '1' and '2'");
  put_index(folder, {{"a", "../1"}});
  expect_error(folder, StatusCode::bad_data, "not a plain file name");
}

TEST(Checkpoint, WritesAnIndexThatItReads) {
  const TempFolder folder;
  put(folder / "1.safetensors", shard(R"(a\\\")", "b"));  // as JSON spells the name a\"
  const std::vector<IndexEntry> entries{{"b", "1.safetensors"}, {"a\\\"", "1.safetensors"}};
  ASSERT_TRUE(write_checkpoint_index(folder.path(), entries, 5).is_ok());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().c_str();
  EXPECT_NE(checkpoint->find("a\\\"").second, nullptr);
  EXPECT_NE(get(folder / kIndexFileName).find("\"total_size\": 5"), std::string::npos);

  const std::vector<IndexEntry> twice{{"b", "1"}, {"b", "2"}}, outside{{"b", "/1"}};
  EXPECT_EQ(write_checkpoint_index(folder.path(), twice, 5).code(), StatusCode::invalid_argument);
  EXPECT_EQ(write_checkpoint_index(folder.path(), outside, 5).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(Checkpoint::open(folder.path()).is_ok());  // still the first one
}

}  // namespace
}  // namespace mxgemm::io
