// What the system says about this machine's memory.
#pragma once

#include <cstdint>

namespace mxgemm::cli {

/// Bytes of the last-level cache; 32 MB when the system does not say.
std::int64_t last_level_cache_bytes();

/// Memory that can be used without swapping.
std::int64_t available_memory_bytes();

}  // namespace mxgemm::cli
