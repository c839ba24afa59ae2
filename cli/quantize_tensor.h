// One tensor, from a mapped file through the quantizer into a writer, without ever holding more
// than a few megabytes of it and its scales.
#pragma once

#include <span>

#include "io/safetensors.h"
#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/threads.h"
#include "quantize_stats.h"
#include "terminal.h"

namespace mxgemm::cli {

/// Quantizes x[rows, cols] and writes all codes, then all scales, row_major and dense.
Status quantize_tensor(const ConstMatrix& x, const QuantizeOptions& options, ThreadPool& threads,
                       io::SafetensorsWriter& writer, QuantStats& stats, Progress& progress);

/// The inverse: writes q[rows, cols] as bf16 or f32.
Status dequantize_tensor(const Mxfp4View& q, DType dtype, ThreadPool& threads,
                         io::SafetensorsWriter& writer, Progress& progress);

}  // namespace mxgemm::cli
