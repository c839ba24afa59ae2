// mxgemm inspect on a GGUF file.
#pragma once

#include <filesystem>

#include "mxgemm/status.h"

namespace mxgemm::cli {

/// Prints what the file holds, as text or as JSON, and returns the exit code.
Result<int> inspect_gguf(const std::filesystem::path& path, bool json);

}  // namespace mxgemm::cli
