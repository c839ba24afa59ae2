// The read loop, for whichever instruction set its caller is compiled for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "roof_loops.h"

namespace mxgemm::cli {

/// A cache line: one register or several, as the instruction set has them.
using Line = std::uint64_t __attribute__((vector_size(64)));
inline constexpr std::size_t kLineBytes = sizeof(Line);

/// kMaxStreams lines a step whatever the number of streams, each into a sum of its own.
template <int kStreams>
__attribute__((always_inline)) inline std::uint64_t read_streams(const std::byte* p,
                                                                 std::size_t bytes) noexcept {
  constexpr std::size_t kLines = kMaxStreams / kStreams, kStep = kLines * kLineBytes;
  const std::size_t stream_bytes = bytes / kStreams / kStep * kStep;
  Line sums[kMaxStreams] = {};
  for (std::size_t at = 0; at < stream_bytes; at += kStep) {
#pragma GCC unroll 8
    for (int i = 0; i < kMaxStreams; ++i) {
      const std::size_t stream = static_cast<std::size_t>(i) / kLines;
      const std::size_t line = static_cast<std::size_t>(i) % kLines;
      Line values;
      std::memcpy(&values, p + stream * stream_bytes + at + line * kLineBytes, sizeof values);
      sums[i] += values;
    }
  }
  Line total = {};
  for (const Line& sum : sums) total += sum;
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < kLineBytes / sizeof result; ++i) result += total[i];
  for (std::size_t at = stream_bytes * kStreams; at < bytes; ++at) {
    result += std::to_integer<std::uint64_t>(p[at]);
  }
  return result;
}

__attribute__((always_inline)) inline std::uint64_t read_any(const std::byte* p, std::size_t bytes,
                                                             int num_streams) noexcept {
  switch (num_streams) {
    case 1:
      return read_streams<1>(p, bytes);
    case 2:
      return read_streams<2>(p, bytes);
    case 4:
      return read_streams<4>(p, bytes);
    default:
      return read_streams<8>(p, bytes);
  }
}

}  // namespace mxgemm::cli
