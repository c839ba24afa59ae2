// mxgemm dequantize on a GGUF file.
#pragma once

#include "checkpoint_output.h"
#include "mxgemm/status.h"
#include "mxgemm/threads.h"

namespace mxgemm::cli {

/// Writes a safetensors file with the GGUF file's tensors: MXFP4 as `dtype`, floats and integers as
/// they are. Returns the exit code. Errors: bad_data (no MXFP4 tensor, the reader's), unsupported
/// (a tensor of another quantized type), those of check_output().
Result<int> dequantize_gguf(const ConversionPaths& paths, DType dtype, ThreadPool& threads);

}  // namespace mxgemm::cli
