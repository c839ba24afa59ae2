// Any architecture: reads at its own width; the peak of its int8 instructions is not known.
#include "read_loop.h"

namespace mxgemm::cli {
namespace {

std::uint64_t read(const std::byte* p, std::size_t bytes, int num_streams) noexcept {
  return read_any(p, bytes, num_streams);
}

}  // namespace

RoofLoops roof_loops() noexcept {
  return {.read = read};
}

}  // namespace mxgemm::cli
