// The summation tree of the ordered sum (docs/numerics.md, section 3): spans of 256 elements are
// added pairwise like a binary counter, so any part of K that is cut at span boundaries leaves
// whole nodes of the same tree.
#pragma once

#include <cstdint>

namespace mxgemm::cpu {

// A range of spans leaves at most two nodes of each size; K is at most 2^40 elements.
inline constexpr std::int64_t kMaxK = std::int64_t{1} << 40;
inline constexpr int kMaxTreeDepth = 68;

/// Where a node of the tree lies: `count` spans, a power of two, from a multiple of it on.
struct SpanRange {
  std::int64_t first = 0, count = 1;
};

/// Whether two neighbouring nodes are the halves of the next larger one.
constexpr bool are_siblings(SpanRange left, SpanRange right) noexcept {
  return left.count == right.count && left.first % (2 * left.count) == 0;
}

/// The nodes that [begin, end) leaves, oldest first; returns how many.
constexpr int tree_nodes(std::int64_t begin, std::int64_t end,
                         SpanRange (&nodes)[kMaxTreeDepth]) noexcept {
  int depth = 0;
  for (std::int64_t first = begin; first < end;) {
    std::int64_t count = 1;
    while (first % (2 * count) == 0 && first + 2 * count <= end) count *= 2;
    nodes[depth++] = {first, count};
    first += count;
  }
  return depth;
}

/// The stack of one tile of sums: push spans in rising order, then read or fold what is left.
template <int kMaxSums>
class SpanTree {
 public:
  /// Empties the stack; nodes have num_sums <= kMaxSums sums from now on.
  void clear(int num_sums) noexcept {
    depth_ = 0;
    num_sums_ = num_sums;
  }

  /// Where the next node's sums are to be written, before push().
  float* top() noexcept { return sums_[depth_]; }

  /// Takes top() as the node `range` and combines it with older siblings; the older operand is
  /// the left one.
  void push(SpanRange range) noexcept {
    while (depth_ > 0 && are_siblings(ranges_[depth_ - 1], range)) {
      --depth_;
      for (int i = 0; i < num_sums_; ++i)
        sums_[depth_][i] = sums_[depth_][i] + sums_[depth_ + 1][i];
      range = {ranges_[depth_].first, 2 * range.count};
    }
    ranges_[depth_++] = range;
  }

  /// The same in two steps, for kernels that hold the new node's sums in registers: while
  /// take_sibling() gives the left operand of a larger node, they add it; then they store the sums
  /// where append() says.
  const float* take_sibling(SpanRange& range) noexcept {
    if (depth_ == 0 || !are_siblings(ranges_[depth_ - 1], range)) return nullptr;
    --depth_;
    range = {ranges_[depth_].first, 2 * range.count};
    return sums_[depth_];
  }
  float* append(SpanRange range) noexcept {
    ranges_[depth_] = range;
    return sums_[depth_++];
  }

  /// Adds up all nodes, newest first, into the oldest one; there is at least one.
  const float* fold() noexcept {
    for (; depth_ > 1; --depth_)
      for (int i = 0; i < num_sums_; ++i)
        sums_[depth_ - 2][i] = sums_[depth_ - 2][i] + sums_[depth_ - 1][i];
    return sums_[0];
  }

  int depth() const noexcept { return depth_; }
  const float* node(int i) const noexcept { return sums_[i]; }

 private:
  int depth_ = 0, num_sums_ = kMaxSums;
  SpanRange ranges_[kMaxTreeDepth];
  alignas(64) float sums_[kMaxTreeDepth + 1][kMaxSums];
};

}  // namespace mxgemm::cpu
