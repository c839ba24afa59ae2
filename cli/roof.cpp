#include "roof.h"

#include <algorithm>
#include <atomic>

#include "roof_loops.h"

namespace mxgemm::cli {
namespace {

constexpr std::int64_t kLine = 64;

}  // namespace

ReadRoof::ReadRoof(std::int64_t bytes, std::int64_t num_copies)
    : bytes_(bytes),
      num_copies_(num_copies),
      copy_bytes_((bytes + kLine - 1) / kLine * kLine),
      buffer_(static_cast<std::size_t>(copy_bytes_ * num_copies)) {}

double ReadRoof::read_us(std::int64_t copy, int num_streams, Together& threads) {
  struct Job {
    const RoofLoops loops = roof_loops();
    const std::byte* begin = nullptr;
    std::int64_t bytes = 0, part = 0;
    int num_streams = 1;
    std::atomic<std::uint64_t> sum{0};
  } job;
  const std::int64_t parts = threads.num_threads();
  job.begin = buffer_.data() + copy * copy_bytes_;
  job.bytes = bytes_;
  job.part = ((bytes_ + parts - 1) / parts + kLine - 1) / kLine * kLine;
  job.num_streams = num_streams;
  const auto read = [](void* context, std::int64_t number) noexcept {
    auto& shared = *static_cast<Job*>(context);
    const std::int64_t first = std::min(number * shared.part, shared.bytes);
    const std::int64_t last = std::min(first + shared.part, shared.bytes);
    shared.sum += shared.loops.read(shared.begin + first, static_cast<std::size_t>(last - first),
                                    shared.num_streams);
  };
  return threads.time(read, &job);
}

ReadRoof::Streams ReadRoof::best_streams(Together& threads) {
  constexpr int kTrials = 5;
  Streams best;
  double best_warm = 1e30, best_cold = 1e30;
  std::int64_t copy = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (int streams = 1; streams <= kMaxStreams; streams *= 2) {
      copy = copy % (num_copies_ - 1) + 1;
      const double cold = read_us(copy, streams, threads);
      read_us(0, streams, threads);
      const double warm = read_us(0, streams, threads);
      if (cold < best_cold) best_cold = cold, best.cold = streams;
      if (warm < best_warm) best_warm = warm, best.warm = streams;
    }
  }
  return best;
}

double peak_gops(Together& threads) {
  struct Job {
    const RoofLoops loops = roof_loops();
    std::atomic<double> operations{0};
  } job;
  if (job.loops.multiply == nullptr) return 0;
  const auto multiply = [](void* context, std::int64_t) noexcept {
    auto& shared = *static_cast<Job*>(context);
    shared.operations += shared.loops.multiply(shared.loops.times);
  };
  const double us = threads.time(multiply, &job);
  return job.operations / us * 1e-3;
}

const char* peak_instruction() {
  return roof_loops().instruction;
}

}  // namespace mxgemm::cli
