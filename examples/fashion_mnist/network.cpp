#include "network.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "io/safetensors.h"

using namespace mxgemm;

namespace {

const io::TensorView& tensor(const io::SafetensorsFile& file, const std::string& name) {
  const io::TensorView* found = file.find(name);
  if (found == nullptr) throw std::runtime_error(file.name() + " has no tensor " + name);
  return *found;
}

std::vector<float> floats(const io::TensorView& view) {
  const ConstMatrix m = value_of(io::as_float_matrix(view));
  std::vector<float> out(static_cast<std::size_t>(m.rows * m.cols));
  if (m.dtype == DType::f32) {
    std::copy_n(static_cast<const float*>(m.data), out.size(), out.begin());
  } else if (m.dtype == DType::bf16) {
    std::transform(static_cast<const bf16*>(m.data), static_cast<const bf16*>(m.data) + out.size(),
                   out.begin(), [](bf16 x) { return std::bit_cast<float>(x.bits << 16); });
  } else {
    throw std::runtime_error(view.name + " is neither F32 nor BF16");
  }
  return out;
}

std::string layer_name(std::size_t index) {
  return "fc" + std::to_string(index + 1);
}

}  // namespace

void expect_ok(const Status& status) {
  if (!status.is_ok()) throw std::runtime_error(status.c_str());
}

FloatNetwork::FloatNetwork(const std::string& checkpoint) {
  const io::SafetensorsFile file = value_of(io::SafetensorsFile::open(checkpoint));
  while (file.find(layer_name(layers_.size()) + ".weight") != nullptr) {
    const std::string name = layer_name(layers_.size());
    const io::TensorView& weight = tensor(file, name + ".weight");
    const std::vector<float> w = floats(weight);
    Layer layer{weight.shape[0], weight.shape[1], std::vector<float>(w.size()),
                floats(tensor(file, name + ".bias"))};
    for (std::int64_t n = 0; n < layer.n; ++n) {
      for (std::int64_t k = 0; k < layer.k; ++k) {
        layer.transposed[k * layer.n + n] = w[n * layer.k + k];
      }
    }
    layers_.push_back(std::move(layer));
  }
}

std::vector<float> FloatNetwork::run(std::vector<float> x, std::int64_t rows) const {
  for (const Layer& layer : layers_) {
    std::vector<float> y(static_cast<std::size_t>(rows * layer.n));
    for (std::int64_t r = 0; r < rows; ++r) {
      float* out = &y[r * layer.n];
      std::copy_n(layer.bias.data(), layer.n, out);
      for (std::int64_t k = 0; k < layer.k; ++k) {
        const float a =
            &layer == layers_.data() ? x[r * layer.k + k] : std::max(x[r * layer.k + k], 0.0f);
        if (a == 0) continue;  // more than half of all pixels and of all ReLU outputs
        const float* w = &layer.transposed[k * layer.n];
        for (std::int64_t n = 0; n < layer.n; ++n) out[n] += a * w[n];
      }
    }
    x = std::move(y);
  }
  return x;
}

Mxfp4Network::Mxfp4Network(const std::string& checkpoint, std::int64_t m_max, PlanOptions options) {
  const io::SafetensorsFile file = value_of(io::SafetensorsFile::open(checkpoint));
  while (file.find(layer_name(layers_.size()) + ".weight") != nullptr) {
    const std::string name = layer_name(layers_.size());
    const io::TensorView& codes = tensor(file, name + ".weight");
    const io::TensorView& scales = tensor(file, name + ".weight_scale");
    if (codes.dtype != "U8") {
      throw std::runtime_error(checkpoint + ": " + codes.name + " is " + codes.dtype +
                               ", not quantized; use mxgemm quantize --short-block");
    }
    const std::int64_t n = codes.shape[0], k = 2 * codes.shape[1];
    const Mxfp4View view = mxfp4_view(value_of(io::as_bytes(codes)).data(),
                                      value_of(io::as_bytes(scales)).data(), n, k);
    const Weights weights = value_of(Weights::from_row_major(view));
    const Weights packed = value_of(weights.pack(Device::cpu(), options.threads));
    layers_.push_back({value_of(Plan::create(Device::cpu(), packed, m_max, options)),
                       floats(tensor(file, name + ".bias"))});
    workspace_.resize(std::max(workspace_.size(), layers_.back().plan.workspace_bytes()));
  }
}

std::vector<float> Mxfp4Network::run(const std::vector<bf16>& x, std::int64_t rows,
                                     std::vector<std::vector<double>>* timings) {
  std::vector<bf16> hidden = x;
  std::vector<float> logits;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Plan& plan = layers_[i].plan;
    const bool last = i + 1 == layers_.size();
    const std::size_t size = static_cast<std::size_t>(rows * plan.n());
    std::vector<bf16> next(last ? 0 : size);
    logits.resize(last ? size : 0);
    const ConstMatrix a(hidden.data(), DType::bf16, rows, plan.k(), plan.k());
    const Matrix c = last ? Matrix(logits.data(), DType::f32, rows, plan.n(), plan.n())
                          : Matrix(next.data(), DType::bf16, rows, plan.n(), plan.n());

    const auto start = std::chrono::steady_clock::now();
    expect_ok(plan.run(a, c, workspace_, {.bias = layers_[i].bias}));
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    if (timings != nullptr) (*timings)[i].push_back(elapsed.count());

    for (bf16& value : next) {
      if (value.bits & 0x8000) value.bits = 0;  // ReLU: negative becomes +0
    }
    hidden = std::move(next);
  }
  return logits;
}
