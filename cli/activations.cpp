#include "activations.h"

#include <cmath>

#include "formats/mxfp4.h"
#include "random.h"

namespace mxgemm::cli {
namespace {

bf16 to_bf16(float value) noexcept {
  return {formats::float_to_bf16(value)};
}

float probe(std::int64_t row, std::int64_t col, std::int64_t cols) {
  const std::int64_t block = col / formats::kBlock;
  switch (row % 6) {
    case 0:
      return col == (row * 37 + 5) % cols ? 1.0f : 0.0f;
    case 1:
      return std::ldexp(1.0f, static_cast<int>(row % 40) - 20);
    case 2:
      return std::ldexp(1.0f + static_cast<float>(col % 7) / 8, static_cast<int>(block % 33) - 16);
    case 3:  // 6 sets the scale to 1, the others are ties between two codes
      return (col % 2 != 0 ? -1.0f : 1.0f) *
             (col % formats::kBlock == 0 ? 6.0f : 0.25f + 0.5f * static_cast<float>(col % 5));
    case 4:
      return col == cols / 2 ? std::nanf("") : 0.0f;
    default:
      return col == cols - 1 ? INFINITY : 0.0f;
  }
}

}  // namespace

Bf16Matrix random_activations(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Bf16Matrix a{std::vector<bf16>(static_cast<std::size_t>(rows * cols)), rows, cols};
  Random random(seed);
  for (bf16& value : a.values) value = to_bf16(random.nearly_normal());
  return a;
}

Bf16Matrix probe_activations(std::int64_t rows, std::int64_t cols) {
  Bf16Matrix a{{}, rows, cols};
  a.values.reserve(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) a.values.push_back(to_bf16(probe(r, c, cols)));
  }
  return a;
}

}  // namespace mxgemm::cli
