// Random numbers that are the same with every standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace mxgemm::cli {

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  /// Sum of four 16-bit uniforms, variance 1: nearly normal up to 3.4, and exact arithmetic.
  float nearly_normal() noexcept {
    const std::uint64_t bits = next();
    std::int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::int64_t>((bits >> (16 * i)) & 0xFFFF);
    constexpr float kDeviation = 37837.2f;  // of the sum: 65536 / sqrt(3)
    return static_cast<float>(sum - 2 * 65535) / kDeviation;
  }

  /// In (0, 1), never the ends.
  double uniform() noexcept { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }

  /// Normal with its tails (Box and Muller).
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace mxgemm::cli
