// Tensors and metadata spelt by fuzz bytes: small, of every dtype, mostly legal.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace fuzz {

class Recipe {
 public:
  explicit Recipe(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// The next byte; 0 after the end.
  std::uint8_t byte() {
    if (at_ == bytes_.size()) return 0;
    return bytes_[at_++];
  }
  std::size_t number() {
    const std::size_t high = byte();
    return high << 8 | byte();
  }

  std::vector<mxgemm::io::TensorSpec> tensors() {
    static constexpr std::array kDTypes{"F32", "BF16", "F16", "F4",      "U8",      "I8",
                                        "F64", "C64",  "I16", "F8_E8M0", "F6_E2M3", "X1"};
    std::vector<mxgemm::io::TensorSpec> out(byte() % 8);
    for (auto& tensor : out) {
      tensor.name = text();
      tensor.dtype = kDTypes[byte() % kDTypes.size()];
      for (int rank = byte() % 4; rank > 0; --rank) tensor.shape.push_back(byte() % 9);
      if (tensor.dtype == "X1") tensor.num_bytes = byte() % 40;
    }
    return out;
  }

  mxgemm::io::Metadata metadata() {
    mxgemm::io::Metadata out;
    for (int n = byte() % 3; n > 0; --n) {
      std::string key = text();
      out[std::move(key)] = text();
    }
    return out;
  }

 private:
  std::string text() {
    std::string out;
    for (int n = byte() % 6; n > 0; --n) out += static_cast<char>(byte());
    return out;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace fuzz
