#include "distributions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/mxfp4.h"
#include "random.h"

namespace mxgemm::cli {
namespace {

/// One factor for each channel (column of A), the same in all rows.
using Channels = std::vector<double>;

template <class Element>
void fill(Bf16Matrix& a, std::uint64_t seed, const Channels& channels, Element element) {
  Random random(seed);
  for (std::int64_t i = 0; i < a.rows * a.cols; ++i) {
    const double value = element(random) * channels[static_cast<std::size_t>(i % a.cols)];
    a.values[static_cast<std::size_t>(i)] = {formats::float_to_bf16(static_cast<float>(value))};
  }
}

double normal(Random& random) {
  return random.normal();
}

double laplace(Random& random) {
  const double u = random.uniform() - 0.5;
  return std::copysign(std::log(1 - 2 * std::fabs(u)), u);
}

/// Student's t for any number of degrees of freedom (R. W. Bailey, 1994).
template <int kTenths>
double student(Random& random) {
  constexpr double kFreedom = kTenths / 10.0;
  const double radius = std::sqrt(kFreedom * (std::pow(random.uniform(), -2 / kFreedom) - 1));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// silu(gate) * up: what a model's down projection gets.
double swiglu(Random& random) {
  const double gate = random.normal(), up = random.normal();
  return gate / (1 + std::exp(-gate)) * up;
}

Channels flat(std::int64_t cols) {
  return Channels(static_cast<std::size_t>(cols), 1.0);
}

/// So many of every 1000 channels, at least one, are larger by a factor.
Channels outliers(std::int64_t cols, std::uint64_t seed, double per_mille, double factor) {
  Channels channels = flat(cols);
  Random random(seed + 1);
  const auto count = std::llround(static_cast<double>(cols) * per_mille / 1000);
  for (std::int64_t left = std::clamp<std::int64_t>(count, 1, cols); left > 0;) {
    double& channel = channels[random.next() % channels.size()];
    if (channel != 1.0) continue;
    channel = factor;
    --left;
  }
  return channels;
}

Channels lognormal(std::int64_t cols, std::uint64_t seed, double deviation) {
  Channels channels = flat(cols);
  Random random(seed + 1);
  for (double& channel : channels) channel = std::exp(deviation * random.normal());
  return channels;
}

void one_huge(Bf16Matrix& a, std::uint64_t seed) {
  fill(a, seed, flat(a.cols), normal);
  Random random(seed + 1);
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto col = static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(a.cols));
    a.values[static_cast<std::size_t>(row * a.cols + col)] = {formats::float_to_bf16(0x1p40f)};
  }
}

}  // namespace

std::span<const Distribution> distributions() {
  using Matrix = Bf16Matrix;
  using Seed = std::uint64_t;
  static constexpr Distribution kDistributions[] = {
      {"gaussian", "normal", [](Matrix& a, Seed s) { fill(a, s, flat(a.cols), normal); }},
      {"laplace", "Laplace", [](Matrix& a, Seed s) { fill(a, s, flat(a.cols), laplace); }},
      {"student4", "Student's t, 4 degrees of freedom",
       [](Matrix& a, Seed s) { fill(a, s, flat(a.cols), student<40>); }},
      {"student2.5", "Student's t, 2.5 degrees of freedom",
       [](Matrix& a, Seed s) { fill(a, s, flat(a.cols), student<25>); }},
      {"channels0.2x20", "normal, 0.2 % of the channels 20 times larger",
       [](Matrix& a, Seed s) { fill(a, s, outliers(a.cols, s, 2, 20), normal); }},
      {"channels0.8x20", "normal, 0.8 % of the channels 20 times larger",
       [](Matrix& a, Seed s) { fill(a, s, outliers(a.cols, s, 8, 20), normal); }},
      {"channels0.2x100", "normal, 0.2 % of the channels 100 times larger",
       [](Matrix& a, Seed s) { fill(a, s, outliers(a.cols, s, 2, 100), normal); }},
      {"lognormal0.7", "normal, channels times exp(0.7 * normal)",
       [](Matrix& a, Seed s) { fill(a, s, lognormal(a.cols, s, 0.7), normal); }},
      {"lognormal1.0", "normal, channels times exp(normal)",
       [](Matrix& a, Seed s) { fill(a, s, lognormal(a.cols, s, 1.0), normal); }},
      {"swiglu", "silu(normal) * normal",
       [](Matrix& a, Seed s) { fill(a, s, flat(a.cols), swiglu); }},
      {"swiglu-lognormal0.7", "silu(normal) * normal, channels times exp(0.7 * normal)",
       [](Matrix& a, Seed s) { fill(a, s, lognormal(a.cols, s, 0.7), swiglu); }},
      {"huge", "normal, one element of each row 2^40", one_huge},
  };
  return kDistributions;
}

Result<const Distribution*> find_distribution(std::string_view name) {
  std::string names;
  for (const Distribution& distribution : distributions()) {
    if (distribution.name == name) return &distribution;
    names += (names.empty() ? "" : ", ") + std::string(distribution.name);
  }
  return Status::error(StatusCode::invalid_argument, "--scales is \"%s\", must be %s or all",
                       std::string(name).c_str(), names.c_str());
}

Bf16Matrix random_activations(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                              const Distribution& distribution) {
  Bf16Matrix a{std::vector<bf16>(static_cast<std::size_t>(rows * cols)), rows, cols};
  distribution.fill(a, seed);
  return a;
}

}  // namespace mxgemm::cli
