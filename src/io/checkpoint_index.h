// `model.safetensors.index.json`: which shard of a checkpoint holds which tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/status.h"

namespace mxgemm::io {

/// weight_map, with every name stored once.
struct CheckpointIndex {
  struct Entry {
    std::uint64_t offset;  // of the tensor's name in names
    std::uint32_t length;
    std::uint32_t shard;
  };
  std::string names;
  std::vector<Entry> entries;  // sorted by tensor name
  std::vector<std::string> shards;

  std::string_view tensor(const Entry& entry) const noexcept {
    return std::string_view(names).substr(entry.offset, entry.length);
  }
  /// The entry of a tensor, or nullptr.
  const Entry* find(std::string_view tensor) const noexcept;
};

/// Checks everything but whether the shards exist. Heap stays below the text's size + 64 MiB.
/// Errors: bad_data; `file` appears in messages.
Result<CheckpointIndex> parse_index(std::string_view text, const std::string& file);

}  // namespace mxgemm::io
