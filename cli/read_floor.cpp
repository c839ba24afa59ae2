#include "read_floor.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace mxgemm::cli {
namespace {

struct ReadJob {
  std::span<const std::uint8_t> bytes;
  std::size_t part_bytes = 0;
  std::vector<std::uint64_t> sums;
};

void read_part(void* context, std::int64_t index) noexcept {
  auto& job = *static_cast<ReadJob*>(context);
  const std::size_t begin = static_cast<std::size_t>(index) * job.part_bytes;
  const std::size_t end = std::min(begin + job.part_bytes, job.bytes.size());
  // Eight sums: enough loads under way for any core, and vectors of any width.
  constexpr std::size_t kWords = 8;
  std::uint64_t sums[kWords] = {};
  std::size_t at = begin;
  for (; at + sizeof sums <= end; at += sizeof sums) {
    std::uint64_t words[kWords];
    std::memcpy(words, job.bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < kWords; ++i) sums[i] += words[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  for (; at < end; ++at) sum += job.bytes[at];
  job.sums[static_cast<std::size_t>(index)] = sum;
}

}  // namespace

std::uint64_t read_all(std::span<const std::uint8_t> bytes, ThreadPool& threads) {
  const auto parts = static_cast<std::size_t>(threads.num_threads());
  ReadJob job{bytes, (bytes.size() + parts - 1) / parts, std::vector<std::uint64_t>(parts)};
  threads.run(static_cast<std::int64_t>(parts), read_part, &job);
  std::uint64_t sum = 0;
  for (const std::uint64_t part : job.sums) sum += part;
  return sum;
}

std::int64_t last_level_cache_bytes() {
  // What one core can use, not the sum over a socket's caches, which sysconf() may give.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
  std::int64_t kilobytes = 0;
  char unit = 0;
  if (file >> kilobytes >> unit && unit == 'K' && kilobytes > 0) return kilobytes << 10;
  return std::int64_t{32} << 20;
}

std::int64_t available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  while (meminfo >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    meminfo.ignore(1000, '\n');
  }
  return std::int64_t{1} << 30;
}

}  // namespace mxgemm::cli
