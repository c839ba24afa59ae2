// The two roofs over a linear layer: reading the weights once, and multiplying all the int8 values.
// Both are measured, with as many threads as the kernels have.
#pragma once

#include <cstdint>

#include "huge_buffer.h"
#include "together.h"

namespace mxgemm::cli {

/// Reads buffers of the weights' size as fast as this machine can: the widest loads it has, and as
/// many streams a thread as turn out best.
class ReadRoof {
 public:
  /// `num_copies` buffers, 2 or more: the first for warm reads, the others in turn for cold ones.
  ReadRoof(std::int64_t bytes, std::int64_t num_copies);

  /// Tries numbers of streams with so many threads. Call it before read_us().
  struct Streams {
    int warm = 1, cold = 1;
  };
  Streams best_streams(Together& threads);

  /// Microseconds from the moment all threads are there to the end of the last one: waking them is
  /// a kernel's business.
  double read_us(std::int64_t copy, int num_streams, Together& threads);

 private:
  std::int64_t bytes_, num_copies_, copy_bytes_;
  HugeBuffer buffer_;
};

/// 10^9 int8 operations a second (two for a multiply-add) of the machine's best instruction, over
/// some 50 microseconds; 0 where we have no loop for it.
double peak_gops(Together& threads);

/// "AMX int8", or "" without such a loop.
const char* peak_instruction();

}  // namespace mxgemm::cli
