#include "api/combine.h"

namespace mxgemm {

Status combine_partial_nodes(std::span<const PartialNode> nodes, const Matrix& c,
                             const Epilogue& epilogue) noexcept {
  return combine_nodes(nodes, c, epilogue);
}

}  // namespace mxgemm
