#include "machine.h"

#include <fstream>
#include <string>

namespace mxgemm::cli {

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
