// Packing streams: beside the source and the packed weights it takes no more than 64 MB.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "mxgemm/threads.h"
#include "mxgemm/weights.h"

namespace mxgemm {
namespace {

/// A line of /proc/self/status in bytes.
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return -1;
}

/// Lets VmHWM, the peak of resident memory, start anew.
bool reset_peak() {
  std::ofstream refs("/proc/self/clear_refs");
  refs << "5" << std::flush;
  return refs.good();
}

TEST(PackMemory, SourceAndPackedAndLittleElse) {
  if (!reset_peak() || status_bytes("VmHWM") < 0)
    GTEST_SKIP() << "the kernel does not count peaks of memory here";
  constexpr std::int64_t kRows = 8192, kCols = 32768;  // 143 MB: a second copy would be noticed
  const std::vector<std::uint8_t> codes(kRows * kCols / 2, 0x21);
  const std::vector<std::uint8_t> scales(kRows * kCols / 32, 120);
  const auto w = Weights::from_row_major(mxfp4_view(codes.data(), scales.data(), kRows, kCols));
  ASSERT_TRUE(w.is_ok());
  for (const int threads : {1, 4}) {
    const auto pool = ThreadPool::create(threads);
    ASSERT_TRUE(pool.is_ok());
    const std::int64_t before = status_bytes("VmRSS");
    ASSERT_TRUE(reset_peak());
    const auto packed = w->to_layout(Layout::cpu_panel16, pool->get());
    ASSERT_TRUE(packed.is_ok());
    EXPECT_LE(status_bytes("VmHWM") - before, packed->bytes() + (std::int64_t{64} << 20))
        << threads;
  }
}

}  // namespace
}  // namespace mxgemm
