// Create slowly, run fast: a Plan fixes kernel and config for weights on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mxgemm/device.h"
#include "mxgemm/export.h"
#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/threads.h"
#include "mxgemm/weights.h"

namespace mxgemm {

class Tuning;

/// What may change the bits of C. Each promise includes the ones before it.
/// docs/numerics.md, section 3.
enum class Reproducible : int {
  run = 0,     // the same plan on the same inputs gives the same bits
  batch = 1,   // a row of C does not depend on the other rows computed with it
  device = 2,  // the ordered sum: the same bits on every instruction set and device
};

/// What A becomes before the product.
enum class Activation : int {
  mxfp4 = 0,  // quantized on the fly (W4A4)
  none = 1,   // stays bf16 or f16 (W4A16)
};

MXGEMM_EXPORT std::string_view to_string(Reproducible promise) noexcept;
MXGEMM_EXPORT std::string_view to_string(Activation activation) noexcept;
/// Reads "run", "batch", "device".
MXGEMM_EXPORT Result<Reproducible> parse_reproducible(std::string_view text);
/// Reads "mxfp4", "none".
MXGEMM_EXPORT Result<Activation> parse_activation(std::string_view text);

struct PlanOptions {
  Activation activation = Activation::mxfp4;
  ScaleRule activation_rule = ScaleRule::even;
  NonFinite non_finite = NonFinite::propagate;
  Reproducible reproducible = Reproducible::run;
  std::string_view kernel = {};    // force one kernel by its registry name; empty: the best
  ThreadPool* threads = nullptr;   // CPU only; must outlive the plan; none: the calling thread
  const Tuning* tuning = nullptr;  // measured choices (tuning.h); none: the table of MXGEMM_TUNING
};

/// C = alpha * S + bias, in float32, before C's own rounding.
struct Epilogue {
  float alpha = 1.0f;
  std::span<const float> bias = {};  // N values, or empty
};

/// A part of K. Cuts lie on span boundaries: multiples of kSpan elements, or K itself.
struct PartialRange {
  std::int64_t k_begin = 0;
  std::int64_t k_end = -1;      // -1: K
  std::int64_t first_span = 0;  // index, in the whole layer, of the span where this plan's K starts
};
inline constexpr std::int64_t kSpan = 256;

/// One node of the summation tree: the sum of spans [first_span, first_span + num_spans) for all
/// of C, as float32 [M, N], dense.
struct PartialNode {
  std::int64_t first_span = 0, num_spans = 0;
  const float* data = nullptr;
};

/// An immutable recipe for C[M,N] = A[M,K] * W[N,K]^T with any M in 0..m_max. Copies share it; one
/// plan may run on many threads at once with different workspaces.
class MXGEMM_EXPORT Plan {
 public:
  /// Chooses a kernel for every M up to m_max. Holds on to the weights, never repacks them.
  /// Errors: invalid_argument (m_max < 0, several experts, an unknown kernel name, an environment
  /// variable that makes no sense), unsupported (no kernel does it; the message gives the reason of
  /// the one that came closest), out_of_memory.
  static Result<Plan> create(const Device& device, const Weights& weights, std::int64_t m_max,
                             const PlanOptions& options = {});

  std::int64_t m_max() const noexcept;
  std::int64_t n() const noexcept;
  std::int64_t k() const noexcept;
  /// Registry name of the kernel that serves m rows.
  std::string_view kernel(std::int64_t m) const noexcept;
  /// Which kernel and config each M uses and what chose them (a tuning row with its evidence, or
  /// the cost model with every config's score), which kernels were rejected and why, what the
  /// promise costs, and the environment variables in force.
  std::string explain() const;
  /// The same for one M.
  std::string explain(std::int64_t m) const;
  /// One sentence on what creation had to ignore (a table of MXGEMM_TUNING that cannot be used);
  /// empty when it ignored nothing.
  std::string_view warning() const noexcept;

  /// Bytes of workspace that run() needs for m rows; the largest over all M without argument.
  std::size_t workspace_bytes(std::int64_t m) const noexcept;
  std::size_t workspace_bytes() const noexcept;

  /// c[M,N] = alpha * (quantized a[M,K] * W^T) + bias, as bf16 or f32 by c's type. a and c need
  /// unit column stride, must not overlap, and need no alignment; M = 0 writes nothing. workspace
  /// holds at least workspace_bytes(M) bytes, any alignment, contents irrelevant.
  /// Never allocates, throws or prints. On a CPU it returns when c is written.
  /// Errors: invalid_argument; then nothing is written.
  Status run(const ConstMatrix& a, const Matrix& c, std::span<std::byte> workspace,
             const Epilogue& epilogue = {}, Stream stream = {}) const noexcept;

  /// The same on an A that is already MXFP4 (row_major, as quantize_activations writes it); same
  /// bits as the call above. A scale byte 255 is NaN.
  Status run(const Mxfp4View& a, const Matrix& c, std::span<std::byte> workspace,
             const Epilogue& epilogue = {}, Stream stream = {}) const noexcept;

  /// Nodes that run_partial() writes for a range. Errors: invalid_argument (a range that is
  /// empty, outside K, or not cut at span boundaries).
  Result<std::int64_t> num_partial_nodes(const PartialRange& range) const noexcept;
  /// Computes the summation-tree nodes of a part of K, for split-K and row-parallel layers:
  /// sums[num_partial_nodes, M, N] float32, and the description of each in nodes. a has all K
  /// columns of the plan. combine_partial_nodes() then gives the bits of an unsplit `device` run.
  /// Errors: invalid_argument; unsupported when the plan's kernel for a.rows has no ordered sum
  /// (create the plan with Reproducible::device to be sure of one).
  Status run_partial(const ConstMatrix& a, const PartialRange& range, std::span<float> sums,
                     std::span<PartialNode> nodes, std::span<std::byte> workspace,
                     Stream stream = {}) const noexcept;
  Status run_partial(const Mxfp4View& a, const PartialRange& range, std::span<float> sums,
                     std::span<PartialNode> nodes, std::span<std::byte> workspace,
                     Stream stream = {}) const noexcept;

  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) noexcept;
  const Impl& impl() const noexcept { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// What explain(shape.m) would say of a plan with m_max = shape.m for weights of such a shape in a
/// layout, which need not exist. Errors: those of Plan::create.
MXGEMM_EXPORT Result<std::string> explain(const Device& device, const Shape& shape, Layout layout,
                                          const PlanOptions& options = {});

/// Adds nodes that cover spans 0 .. total without gap, in rising order, and writes c[M,N].
/// Never allocates. Errors: invalid_argument (a gap, an overlap, a node that is no tree node).
MXGEMM_EXPORT Status combine_partial_nodes(std::span<const PartialNode> nodes, const Matrix& c,
                                           const Epilogue& epilogue = {}) noexcept;

}  // namespace mxgemm
