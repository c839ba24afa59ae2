// combine_partial_nodes for the node structs of both APIs, which have the same fields.
#pragma once

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <span>

#include "api/check.h"
#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/output.h"
#include "backend/cpu/parallel.h"
#include "mxgemm/plan.h"

namespace mxgemm {

template <class Node>
Status check_nodes(std::span<const Node> nodes) noexcept {
  if (nodes.empty())
    return Status::error(StatusCode::invalid_argument, "nodes is empty, must cover all spans");
  std::int64_t next = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const std::int64_t first = node.first_span, count = node.num_spans;
    if (node.data == nullptr)
      return Status::error(StatusCode::invalid_argument, "nodes[%zu].data is null", i);
    if (first != next)
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu].first_span is %" PRId64 ", must be %" PRId64
                           ": nodes cover the spans in order, without gap or overlap",
                           i, first, next);
    if (count < 1 || !std::has_single_bit(static_cast<std::uint64_t>(count)) ||
        first % count != 0 || count > (cpu::kMaxK / kSpan))
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu] is %" PRId64 " spans from %" PRId64
                           ", must be a power of two of spans from a multiple of it",
                           i, count, first);
    next += count;
    if (next > cpu::kMaxK / kSpan)
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu] ends at span %" PRId64 ", must end by 2^32", i, next);
  }
  return {};
}

template <class Node>
Status combine_nodes(std::span<const Node> nodes, const Matrix& c,
                     const Epilogue& epilogue) noexcept {
  if (Status s = check_output(c, epilogue, c.cols); !s.is_ok()) return s;
  if (c.rows == 0) return {};
  if (Status s = check_nodes(nodes); !s.is_ok()) return s;
  const cpu::DefaultFloatEnvironment environment;
  constexpr int kChunk = 64;  // sums folded at a time, on the stack
  cpu::SpanTree<kChunk> tree;
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t col = 0; col < c.cols; col += kChunk) {
      const auto count = static_cast<int>(std::min<std::int64_t>(kChunk, c.cols - col));
      tree.clear(kChunk);
      for (const Node& node : nodes) {
        std::fill(std::copy_n(node.data + r * c.cols + col, count, tree.top()), tree.top() + kChunk,
                  0.0f);
        tree.push({node.first_span, node.num_spans});
      }
      cpu::store_row(tree.fold(), count, c, r, col, epilogue);
    }
  return {};
}

}  // namespace mxgemm
