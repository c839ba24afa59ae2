// From one checkpoint to another, file by file. What is written appears under its name only when it
// is whole: a file through SafetensorsWriter, a folder through a temporary folder beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "mxgemm/status.h"

namespace mxgemm::cli {

/// What becomes of one file of the checkpoint.
struct OutputFile {
  std::vector<io::TensorSpec> tensors;
  io::Metadata metadata;
  std::int64_t data_bytes = 0;  // of all tensors

  /// A tensor that stays as it is.
  void add(const io::TensorView& tensor) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data.size()});
    data_bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  /// A new tensor of so many bytes.
  void add(io::TensorSpec spec, std::int64_t bytes) {
    tensors.push_back(std::move(spec));
    data_bytes += bytes;
  }
};

/// What a command does to a checkpoint.
class Conversion {
 public:
  Conversion() = default;
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;
  virtual ~Conversion() = default;

  /// The tensors and metadata to write for a file.
  virtual Result<OutputFile> plan(const io::SafetensorsFile& file) = 0;
  /// Writes their bytes, in the order of plan().
  virtual Status write(const io::SafetensorsFile& file, io::SafetensorsWriter& writer) = 0;
  /// Changes a folder's config.json.
  virtual Status edit_config(nlohmann::ordered_json& config) = 0;
};

struct ConversionPaths {
  std::filesystem::path in, out;
  bool force = false;  // replace an existing out
};

/// Refuses an output that is, contains or lies inside the input, or exists already.
/// Errors: invalid_argument, io_error (no folder to write to).
Status check_output(const ConversionPaths& paths, bool folder);

/// Errors: those of the conversion; bad_data (config.json or the index is no JSON object);
/// io_error.
Status convert_checkpoint(const ConversionPaths& paths, const io::Checkpoint& checkpoint,
                          Conversion& conversion);

/// Writes a tensor as it is, in pieces, and lets go of its pages.
Status copy_tensor(const io::SafetensorsFile& file, const io::TensorView& tensor,
                   io::SafetensorsWriter& writer);

/// The folder's config.json, or null when it has none.
Result<nlohmann::ordered_json> read_config(const std::filesystem::path& folder);

}  // namespace mxgemm::cli
