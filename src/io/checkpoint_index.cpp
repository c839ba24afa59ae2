#include "io/checkpoint_index.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/json_scan.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMaxIndexBytes = 100'000'000;  // as a header
constexpr int kMaxDepth = 16;                          // "metadata" may hold anything
constexpr std::size_t kMaxShards = 4096;
constexpr std::size_t kMaxFileName = 255;  // NAME_MAX

// A shard name must not lead out of the checkpoint's folder.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

class IndexReader final : public nlohmann::json_sax<Json> {
 public:
  IndexReader(const std::string& what, CheckpointIndex& out) : what_(what), out_(out) {}

  const Status& status() const noexcept { return status_; }
  bool has_weight_map() const noexcept { return has_weight_map_; }

  bool null() override { return value("null"); }
  bool boolean(bool v) override { return value(v ? "true" : "false"); }
  bool number_integer(std::int64_t) override { return value("a number"); }
  bool number_unsigned(std::uint64_t) override { return value("a number"); }
  bool number_float(double, const std::string&) override { return value("a number"); }
  bool binary(Json::binary_t&) override { return value("binary data"); }

  bool string(std::string& text) override {
    if (depth_ != 2 || !in_map_) return value("a string");
    if (!is_plain_file_name(text)) {
      return bad("puts tensor " + quote(tensor_) + " into " + quote(text) +
                 ", which is not a plain file name in the index's folder");
    }
    const auto [at, is_new] =
        shards_.try_emplace(std::string(text), static_cast<std::uint32_t>(out_.shards.size()));
    if (is_new) {
      if (out_.shards.size() == kMaxShards) {
        return bad("names more than " + std::to_string(kMaxShards) + " files");
      }
      out_.shards.emplace_back(text);
    }
    out_.entries.push_back({.offset = out_.names.size(),
                            .length = static_cast<std::uint32_t>(tensor_.size()),
                            .shard = at->second});
    out_.names += tensor_;
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map_ && depth_ == 2) return value("an object");
    if (depth_ == 1 && expect_map_) {
      in_map_ = true;
      expect_map_ = false;
    }
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    if (!value("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override { return leave(); }

  bool key(std::string& name) override {
    if (depth_ == 1 && name == "weight_map") {
      if (has_weight_map_) return bad("has weight_map twice");
      has_weight_map_ = expect_map_ = true;
    }
    if (depth_ == 2 && in_map_) {
      if (name.empty()) return bad("has a tensor with an empty name in weight_map");
      tensor_ = std::string(name);
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return bad("is not valid JSON at byte " + std::to_string(position) + ": " +
               json_error_reason(error.what()));
  }

 private:
  bool bad(const std::string& sentence) {
    status_ = Status::error(StatusCode::bad_data, "%s %s", what_.c_str(), sentence.c_str());
    return false;
  }

  // Any value that weight_map or its entries cannot be; elsewhere it is skipped.
  bool value(const std::string& found) {
    if (depth_ == 1 && expect_map_) {
      return bad("has a weight_map that needs to be an object, is " + found);
    }
    if (depth_ == 2 && in_map_) {
      return bad("puts tensor " + quote(tensor_) + " into " + found +
                 ", needs the name of a file as a string");
    }
    return true;
  }

  bool leave() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  const std::string& what_;
  CheckpointIndex& out_;
  Status status_;
  std::map<std::string, std::uint32_t, std::less<>> shards_;
  std::string tensor_;
  int depth_ = 0;
  bool has_weight_map_ = false, expect_map_ = false, in_map_ = false;
};

}  // namespace

const CheckpointIndex::Entry* CheckpointIndex::find(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [this](const Entry& e, std::string_view n) { return tensor(e) < n; });
  return at == entries.end() || tensor(*at) != name ? nullptr : &*at;
}

Result<CheckpointIndex> parse_index(std::string_view text, const std::string& file) try {
  const std::string what = file + ": the index";
  const auto bad = [&](const std::string& sentence) {
    return Status::error(StatusCode::bad_data, "%s %s", what.c_str(), sentence.c_str());
  };
  if (text.size() > kMaxIndexBytes) {
    return bad("has " + std::to_string(text.size()) + " bytes, at most " +
               std::to_string(kMaxIndexBytes) + " are read");
  }
  const Result<JsonScan> scan = scan_json(text, what, kMaxDepth);
  if (!scan.is_ok()) return scan.status();
  if (scan->members * sizeof(CheckpointIndex::Entry) > kMaxBookkeeping) {
    return bad("has " + std::to_string(scan->members) + " members, at most " +
               std::to_string(kMaxBookkeeping / sizeof(CheckpointIndex::Entry)) + " are read");
  }
  CheckpointIndex out;
  out.names.reserve(text.size());
  out.entries.reserve(static_cast<std::size_t>(scan->members));
  IndexReader reader(what, out);
  if (!Json::sax_parse(scan->text.begin(), scan->text.end(), &reader)) return reader.status();
  if (!reader.has_weight_map()) return bad("has no weight_map");
  const auto less = [&](const auto& a, const auto& b) { return out.tensor(a) < out.tensor(b); };
  std::sort(out.entries.begin(), out.entries.end(), less);
  const auto twice = std::adjacent_find(
      out.entries.begin(), out.entries.end(),
      [&](const auto& a, const auto& b) { return out.tensor(a) == out.tensor(b); });
  if (twice != out.entries.end()) {
    return bad("has tensor " + quote(out.tensor(*twice)) + " twice");
  }
  return out;
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "%s: no memory for the index (%s)", file.c_str(),
                       e.what());
}

Status write_checkpoint_index(const std::filesystem::path& folder,
                              std::span<const IndexEntry> entries, std::uint64_t total_bytes) try {
  std::string text = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total_bytes) +
                     "\n  },\n  \"weight_map\": {";
  const char* separator = "\n    ";
  for (const IndexEntry& entry : entries) {
    text += separator + json_string(entry.tensor) + ": " + json_string(entry.file);
    separator = ",\n    ";
  }
  text += "\n  }\n}\n";
  const std::filesystem::path path = folder / kIndexFileName;
  // What is written must be readable: duplicates and names that are not plain are found here.
  const Result<CheckpointIndex> check = parse_index(text, display_name(path));
  if (!check.is_ok()) {
    return Status::error(StatusCode::invalid_argument, "%s", check.status().c_str());
  }
  return write_file(path, text);
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for the checkpoint's index");
}

}  // namespace mxgemm::io
