#include <algorithm>
#include <bit>
#include <cinttypes>

#include "api/check.h"
#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/output.h"
#include "backend/cpu/parallel.h"
#include "mxgemm/plan.h"

namespace mxgemm {
namespace {

Status check_nodes(std::span<const PartialNode> nodes) noexcept {
  if (nodes.empty())
    return Status::error(StatusCode::invalid_argument, "nodes is empty, must cover all spans");
  std::int64_t next = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PartialNode& node = nodes[i];
    if (node.data == nullptr)
      return Status::error(StatusCode::invalid_argument, "nodes[%zu].data is null", i);
    if (node.first_span != next)
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu].first_span is %" PRId64 ", must be %" PRId64
                           ": nodes cover the spans in order, without gap or overlap",
                           i, node.first_span, next);
    if (node.num_spans < 1 || !std::has_single_bit(static_cast<std::uint64_t>(node.num_spans)) ||
        node.first_span % node.num_spans != 0 || node.num_spans > (cpu::kMaxK / kSpan))
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu] is %" PRId64 " spans from %" PRId64
                           ", must be a power of two of spans from a multiple of it",
                           i, node.num_spans, node.first_span);
    next += node.num_spans;
    if (next > cpu::kMaxK / kSpan)
      return Status::error(StatusCode::invalid_argument,
                           "nodes[%zu] ends at span %" PRId64 ", must end by 2^32", i, next);
  }
  return {};
}

}  // namespace

Status combine_partial_nodes(std::span<const PartialNode> nodes, const Matrix& c,
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
      for (const PartialNode& node : nodes) {
        std::fill(std::copy_n(node.data + r * c.cols + col, count, tree.top()), tree.top() + kChunk,
                  0.0f);
        tree.push({node.first_span, node.num_spans});
      }
      cpu::store_row(tree.fold(), count, c, r, col, epilogue);
    }
  return {};
}

}  // namespace mxgemm
