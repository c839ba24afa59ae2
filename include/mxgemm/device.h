// Where a plan runs, and the queue it runs on.
#pragma once

#include <string>
#include <string_view>

#include "mxgemm/export.h"
#include "mxgemm/status.h"

namespace mxgemm {

enum class DeviceKind : int { cpu = 0, cuda = 1, hip = 2 };

struct MXGEMM_EXPORT Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static constexpr Device cpu() noexcept { return {}; }
  static constexpr Device cuda(int i) noexcept { return {DeviceKind::cuda, i}; }
  static constexpr Device hip(int i) noexcept { return {DeviceKind::hip, i}; }

  /// Reads "cpu", "cuda", "cuda:1", "hip:0".
  static Result<Device> parse(std::string_view text);

  friend constexpr bool operator==(const Device&, const Device&) noexcept = default;
};

/// "cpu", "cuda:0", ...
MXGEMM_EXPORT std::string to_string(const Device& device);

/// The caller's stream on a GPU (cudaStream_t, hipStream_t); ignored on the CPU.
struct Stream {
  void* handle = nullptr;
};

}  // namespace mxgemm
