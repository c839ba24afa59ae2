// The same network twice: in float32, and with every layer in MXFP4.
#pragma once

#include <mxgemm/mxgemm.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// The value of a Result; throws its sentence when there is none.
template <class T>
T value_of(mxgemm::Result<T> result) {
  if (!result.is_ok()) throw std::runtime_error(result.status().c_str());
  return std::move(result).value();
}
void expect_ok(const mxgemm::Status& status);

/// float32 arithmetic on the checkpoint's bf16 weights.
class FloatNetwork {
 public:
  explicit FloatNetwork(const std::string& checkpoint);
  /// x[rows, 784] -> logits[rows, 10].
  std::vector<float> run(std::vector<float> x, std::int64_t rows) const;

 private:
  struct Layer {
    std::int64_t n, k;
    std::vector<float> transposed;  // [K,N]: the inner loop runs along a row
    std::vector<float> bias;
  };
  std::vector<Layer> layers_;
};

/// MXFP4 weights from a quantized checkpoint; activations are quantized inside the product and are
/// bf16 between layers.
class Mxfp4Network {
 public:
  Mxfp4Network(const std::string& checkpoint, std::int64_t m_max, mxgemm::PlanOptions options);

  std::size_t num_layers() const { return layers_.size(); }
  const mxgemm::Plan& plan(std::size_t layer) const { return layers_[layer].plan; }
  /// bf16 x[rows, 784] -> logits[rows, 10]; adds each layer's microseconds to `timings` (if any).
  std::vector<float> run(const std::vector<mxgemm::bf16>& x, std::int64_t rows,
                         std::vector<std::vector<double>>* timings = nullptr);

 private:
  struct Layer {
    mxgemm::Plan plan;
    std::vector<float> bias;
  };
  std::vector<Layer> layers_;
  std::vector<std::byte> workspace_;
};
