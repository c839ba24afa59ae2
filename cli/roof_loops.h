// The loops under roof.h, as fast as this machine runs them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mxgemm::cli {

inline constexpr int kMaxStreams = 8;

/// Reads all bytes as 1, 2, 4 or 8 streams side by side. The sum keeps the compiler from leaving
/// the loads out.
using ReadLoop = std::uint64_t (*)(const std::byte* p, std::size_t bytes, int num_streams) noexcept;

/// Multiplies and adds int8 values that stay in registers, so many times 8 instructions; returns
/// the operations done, two for a multiply-add.
using MultiplyLoop = double (*)(std::int64_t times) noexcept;

struct RoofLoops {
  ReadLoop read = nullptr;
  MultiplyLoop multiply = nullptr;  // none: not known for this machine
  const char* instruction = "";
  std::int64_t times = 0;  // for about 50 us
};
RoofLoops roof_loops() noexcept;

}  // namespace mxgemm::cli
