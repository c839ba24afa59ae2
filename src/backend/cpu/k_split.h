// Cutting K over threads where C has fewer tiles than there are threads.
//
// Parts are aligned powers of two of spans, so each leaves one node of the ordered sum; only the
// last may be ragged, and its nodes may be folded into one sum at once, because that is what the
// ordered sum does with them anyway. So the bits do not depend on the cut.
#pragma once

#include <cstdint>

#include "layout/layouts.h"

namespace mxgemm::cpu {

struct KSplit {
  std::int64_t part_spans, num_parts;

  /// The cut of `num_spans` that lets `threads` finish `num_tiles` tiles first; the fewest parts in
  /// a tie.
  constexpr KSplit(std::int64_t num_tiles, std::int64_t num_spans, std::int64_t threads) noexcept
      : part_spans(num_spans), num_parts(1) {
    if (num_tiles >= threads) return;
    std::int64_t best = num_spans;  // spans that the busiest thread adds
    std::int64_t size = 1;
    while (size < num_spans) size *= 2;
    for (size /= 2; size > 0; size /= 2) {
      const std::int64_t parts = layout::ceil_div(num_spans, size);
      if (num_tiles * parts > max_slots(threads)) return;
      const std::int64_t spans = layout::ceil_div(num_tiles * parts, threads) * size;
      if (spans >= best) continue;
      best = spans;
      part_spans = size;
      num_parts = parts;
    }
  }

  /// num_tiles * num_parts is at most this where K is cut: about two tasks a thread.
  static constexpr std::int64_t max_slots(std::int64_t threads) noexcept { return 2 * threads; }
};

}  // namespace mxgemm::cpu
