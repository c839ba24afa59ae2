// The MXFP4 layers of a checkpoint: `T` packed codes beside `T_scale`, as AMD Quark names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "mxgemm/status.h"
#include "mxgemm/weights.h"

namespace mxgemm::cli {

/// One pair: W[N,K] or W[E,N,K].
struct Layer {
  std::string name;  // of the codes: "X.weight"
  const io::SafetensorsFile* file = nullptr;
  const io::TensorView* codes = nullptr;
  const io::SafetensorsFile* scale_file = nullptr;
  const io::TensorView* scales = nullptr;
  bool stacked = false;  // [E,N,K]
  std::int64_t num_experts = 1, n = 0, k = 0;
  std::string scale_rule = "unknown";

  std::int64_t rows() const noexcept { return num_experts * n; }
  /// All experts' rows, one below the other.
  Mxfp4View view() const noexcept;
};

/// Does this tensor hold packed codes with scales beside it?
bool is_layer(const io::Checkpoint& checkpoint, const io::TensorView& tensor);

/// Reads a pair's shapes. K comes from the file's `mxgemm.k` if it is there, else from the bytes.
/// Errors: bad_data (shapes that don't fit, names both tensors).
Result<Layer> read_layer(const io::Checkpoint& checkpoint, const io::SafetensorsFile& file,
                         const io::TensorView& tensor);

/// All of them, in file order. Errors: those of read_layer().
Result<std::vector<Layer>> find_layers(const io::Checkpoint& checkpoint);

/// The layer called `X` or `X.weight`. Errors: bad_data (none; a float tensor of that name).
Result<Layer> find_layer(const io::Checkpoint& checkpoint, std::string_view name);

/// Borrows the bytes of the mapping, every `row_step`-th row of all experts; with row_step 1 the
/// experts stay apart.
Result<Weights> layer_weights(const Layer& layer, std::int64_t row_step = 1);

/// What weights_for_kernel() makes.
Layout layout_for_kernel(std::string_view kernel);

/// Weights in a layout that `kernel` reads (empty: what the CPU's best kernels read).
Result<Weights> weights_for_kernel(const Weights& weights, std::string_view kernel,
                                   ThreadPool* threads);

struct ScaleRange {
  int min = 256, max = -1;  // bytes, NaN left out
  std::int64_t num_nan = 0;
};
ScaleRange scale_range(const Layer& layer);

}  // namespace mxgemm::cli
