// The floor under a matrix product with few rows: reading the weights once.
#pragma once

#include <cstdint>
#include <span>

#include "mxgemm/threads.h"

namespace mxgemm::cli {

/// Reads every byte with all threads of the pool, in 16-byte words, and returns a checksum that
/// keeps the compiler from leaving it out.
std::uint64_t read_all(std::span<const std::uint8_t> bytes, ThreadPool& threads);

/// Bytes of the last-level cache; 32 MB when the system does not say.
std::int64_t last_level_cache_bytes();

/// Memory that can be used without swapping.
std::int64_t available_memory_bytes();

}  // namespace mxgemm::cli
