// Kinds of activations, from friendly to hostile: what they look like decides how many blocks a
// kernel can sum before it has to look at their scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "activations.h"
#include "mxgemm/status.h"

namespace mxgemm::cli {

struct Distribution {
  std::string_view name;  // for --scales
  std::string_view what;
  /// All of a [rows, cols] matrix, the same for the same seed.
  void (*fill)(Bf16Matrix& a, std::uint64_t seed);
};
/// The first is the default.
std::span<const Distribution> distributions();

/// Errors: invalid_argument (no such name; lists them).
Result<const Distribution*> find_distribution(std::string_view name);

Bf16Matrix random_activations(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                              const Distribution& distribution);

}  // namespace mxgemm::cli
