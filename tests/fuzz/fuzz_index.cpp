// Any bytes as `model.safetensors.index.json`.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/checkpoint_index.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxgemm;
  const auto index =
      io::parse_index(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!index.is_ok()) {
    MXGEMM_REQUIRE(index.status().code() == StatusCode::bad_data);
    return 0;
  }
  for (const auto& entry : index->entries) {
    MXGEMM_REQUIRE(index->find(index->tensor(entry)) == &entry);
    MXGEMM_REQUIRE(entry.shard < index->shards.size());
  }
  for (const std::string& shard : index->shards) {
    MXGEMM_REQUIRE(!shard.empty() && shard != ".." && shard.find('/') == std::string::npos);
  }
  return 0;
}
