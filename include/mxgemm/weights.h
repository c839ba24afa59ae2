// MXFP4 weights in one of several layouts. Layouts: docs/numerics.md, section 4.
#pragma once

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

namespace mxgemm {

/// How codes and scales lie in memory. It decides which kernels can read them.
enum class Layout : int {
  row_major = 0,    // codes [N, ceil(K/2)], scales [N, ceil(K/32)]: the exchange form
  aiter_16x16 = 1,  // what AMD's aiter calls shuffle_weight(16,16) + e8m0_shuffle
  gguf_mxfp4 = 2,   // 17-byte blocks {scale, 16 code bytes}, halves split
  cpu_panel16 = 3,  // 16-row panels for the CPU kernels; internal, may change
};

MXGEMM_EXPORT std::string_view to_string(Layout layout) noexcept;
MXGEMM_EXPORT Result<Layout> parse_layout(std::string_view text);

/// Bytes of codes and of scales that one [n, k] matrix takes in a layout (pads included). In
/// gguf_mxfp4 codes and scales are interleaved: scales_bytes is 0.
struct LayoutBytes {
  std::int64_t codes_bytes = 0, scales_bytes = 0;
};
/// Errors: invalid_argument (n or k below 1; a k that is not a multiple of 32 for gguf_mxfp4).
MXGEMM_EXPORT Result<LayoutBytes> layout_bytes(Layout layout, std::int64_t n, std::int64_t k);

/// W[N,K] or W[E,N,K] in MXFP4: a cheap, immutable handle. Copies share the bytes.
class MXGEMM_EXPORT Weights {
 public:
  struct Options {
    std::int64_t num_experts = 1;  // E; rows given are E * N
    /// Name of the rule that made the scales ("even", "other(mlx)"), recorded, not used.
    std::string_view scale_rule = "unknown";
    /// Set: the bytes are borrowed, and this is held as long as anything uses them.
    /// Null: the bytes are copied.
    std::shared_ptr<const void> keep_alive = {};
  };

  /// From row-major MXFP4 with w.rows = E * N. Bytes between rows, and the last high nibble of an
  /// odd K, are never read as data.
  static Result<Weights> from_row_major(const Mxfp4View& w, const Options& options);
  static Result<Weights> from_row_major(const Mxfp4View& w);
  /// From aiter's shuffled codes and scales, each expert one slab of layout_bytes(). Pads are
  /// not trusted.
  static Result<Weights> from_aiter(std::int64_t n, std::int64_t k,
                                    std::span<const std::uint8_t> codes,
                                    std::span<const std::uint8_t> scales, const Options& options);
  /// From ggml's MXFP4 blocks, E * N rows of k/32 blocks.
  static Result<Weights> from_gguf(std::int64_t n, std::int64_t k,
                                   std::span<const std::uint8_t> blocks, const Options& options);
  /// Quantizes w[E * N, K] (bf16, f16, f32) to row_major.
  static Result<Weights> quantize(const ConstMatrix& w, const QuantizeOptions& options = {},
                                  std::int64_t num_experts = 1);

  /// The layout that `device`'s best kernels read, as new weights.
  Result<Weights> pack(const Device& device, ThreadPool* threads = nullptr) const;
  /// Any layout, losslessly, as new weights; pads are written as codes 0 and scale 127.
  /// Errors: invalid_argument (gguf_mxfp4 with K % 32 != 0), out_of_memory.
  Result<Weights> to_layout(Layout layout, ThreadPool* threads = nullptr) const;
  /// One expert's W[N,K], without a copy. Errors: invalid_argument (index out of range).
  Result<Weights> slice(std::int64_t expert) const;
  /// Writes all experts as row-major MXFP4 into out[E * N, K].
  Status copy_row_major(const Mxfp4Buffer& out, ThreadPool* threads = nullptr) const noexcept;

  std::int64_t num_experts() const noexcept;
  std::int64_t n() const noexcept;         // logical rows of one expert (output features)
  std::int64_t k() const noexcept;         // logical columns (input features)
  std::int64_t padded_n() const noexcept;  // rows and columns the layout stores
  std::int64_t padded_k() const noexcept;
  Layout layout() const noexcept;
  std::string_view scale_rule() const noexcept;
  /// Bytes of codes and scales, as stored: what one pass over the weights reads.
  std::int64_t bytes() const noexcept;
  /// The stored bytes of all experts; empty for row_major weights borrowed with padded rows
  /// (use copy_row_major).
  std::span<const std::uint8_t> codes() const noexcept;
  std::span<const std::uint8_t> scales() const noexcept;

  struct Impl;
  explicit Weights(std::shared_ptr<const Impl> impl) noexcept;
  const Impl& impl() const noexcept { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace mxgemm
