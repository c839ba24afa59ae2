// Helpers of the command-line tests: runs the built binary in a folder of its own and makes the
// checkpoints it reads.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formats/mxfp4.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io_corpus/temp_folder.h"
#include "testing.h"

namespace mxgemm::testing {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Outcome {
  int code = -1;  // exit code, or -signal
  std::string out, err;
};

struct Tensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Normally distributed values of a dtype.
Tensor float_tensor(const std::string& name, const std::string& dtype,
                    const std::vector<std::int64_t>& shape, unsigned seed);
/// A view of a 2-D or 3-D float tensor, all rows below each other.
ConstMatrix matrix_of(const Tensor& tensor);
/// What the library makes of it.
HostMxfp4 quantized(const Tensor& tensor, const QuantizeOptions& options = {});

void write_checkpoint(const fs::path& path, const std::vector<Tensor>& tensors,
                      const io::Metadata& metadata = {});
/// `X` and `X_scale` of a quantized tensor.
std::vector<Tensor> mxfp4_pair(const std::string& name, const HostMxfp4& q);

class CliTest : public ::testing::Test {
 protected:
  /// Runs `mxgemm args...` in the test's folder and waits for it.
  Outcome mxgemm(const std::vector<std::string>& args,
                 const std::vector<std::string>& environment = {}) const;
  /// Starts it only; wait() collects it.
  pid_t start(const std::vector<std::string>& args,
              const std::vector<std::string>& environment = {}) const;
  Outcome wait(pid_t pid) const;

  /// Expects an exit code and one line on stderr that contains `text`.
  void expect_failure(const std::vector<std::string>& args, int code,
                      const std::string& text) const;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  io::SafetensorsFile open(const std::string& name) const;
  void write_npy(const std::string& name, io::NpyType type, const std::vector<std::int64_t>& shape,
                 const std::vector<std::uint8_t>& bytes) const;
  io::NpyArray read_npy(const std::string& name) const;

  io_corpus::TempFolder folder_;
};

/// The most resident memory of a running process, in KB, followed until it ends. (What wait4() says
/// begins with the memory of the test itself.)
long watch_peak_memory(pid_t pid);

std::vector<std::uint8_t> data_of(const io::SafetensorsFile& file, const std::string& tensor);

}  // namespace mxgemm::testing
