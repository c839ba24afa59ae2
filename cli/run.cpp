// mxgemm run: one layer of a checkpoint on activations from a .npy file.
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "formats/mxfp4.h"
#include "interrupt.h"
#include "io/npy.h"
#include "io/text.h"
#include "layers.h"
#include "options.h"

namespace mxgemm::cli {
namespace {

struct Options {
  std::filesystem::path file, input, output;
  std::string tensor, kernel;
  DType out = DType::f32;
  std::optional<std::int64_t> expert;
  bool prequantized = false;
  int threads = 0;
  double alpha = 1;
  PlanOptions plan;
};

Status bad(const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s", sentence.c_str());
}

/// The array as A[M,K].
Result<ConstMatrix> as_activations(const io::NpyArray& array, const std::string& path,
                                   const Layer& layer) {
  DType dtype = DType::f32;
  switch (array.type) {
    case io::NpyType::f4:
      break;
    case io::NpyType::f2:
      dtype = DType::f16;
      break;
    case io::NpyType::u2:
      dtype = DType::bf16;
      break;
    default:
      return bad(path + " must hold float32, float16, or bf16 as uint16");
  }
  if (array.shape.size() != 2) {
    return bad(
        fmt::format("{} has shape {}, need [M, {}]", path, io::shape_string(array.shape), layer.k));
  }
  if (array.shape[1] != layer.k) {
    return bad(fmt::format("{} has K = {}, layer {} needs {}", path, array.shape[1],
                           io::quote(layer.name), layer.k));
  }
  return ConstMatrix(array.data.data(), dtype, array.shape[0], layer.k, layer.k);
}

/// The layer's own weights: all of them, or one expert's.
Result<Weights> select_weights(const Layer& layer, const Options& options) {
  auto weights = layer_weights(layer);
  if (!weights.is_ok()) return weights;
  if (layer.stacked && !options.expert) {
    return Status::error(StatusCode::invalid_argument,
                         "%s holds %lld experts; --expert chooses one",
                         io::quote(layer.name).c_str(), static_cast<long long>(layer.num_experts));
  }
  if (!options.expert) return weights;
  if (!layer.stacked) {
    return Status::error(StatusCode::invalid_argument, "--expert: %s is one matrix, not [E,N,K]",
                         io::quote(layer.name).c_str());
  }
  if (*options.expert >= layer.num_experts) {
    return Status::error(StatusCode::invalid_argument, "--expert %lld: %s holds experts 0 to %lld",
                         static_cast<long long>(*options.expert), io::quote(layer.name).c_str(),
                         static_cast<long long>(layer.num_experts - 1));
  }
  return weights->slice(*options.expert);
}

/// `X.bias`, or `[E,N]` of a stacked layer, as float32; empty when there is none.
Result<std::vector<float>> read_bias(const io::Checkpoint& checkpoint, const Layer& layer,
                                     const Options& options) {
  std::string name = layer.name;
  constexpr std::string_view kSuffix = ".weight";
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  name += name == layer.name ? "_bias" : ".bias";
  const auto [file, tensor] = checkpoint.find(name);
  if (tensor == nullptr) return std::vector<float>();
  const auto values = io::as_float_matrix(*tensor);
  if (!values.is_ok()) return bad(std::string(values.status().message()));
  const std::int64_t rows = layer.stacked ? layer.num_experts : 1;
  if (values->cols != layer.n || values->rows != rows) {
    const std::string need = layer.stacked ? fmt::format("[{}, {}]", layer.num_experts, layer.n)
                                           : fmt::format("[{}]", layer.n);
    return bad(fmt::format("{}: bias {} is {}, the layer needs {}", file->name(), io::quote(name),
                           io::shape_string(tensor->shape), need));
  }
  std::vector<float> bias(static_cast<std::size_t>(layer.n));
  const std::int64_t first = options.expert.value_or(0) * layer.n;
  const auto* data = static_cast<const unsigned char*>(values->data);
  for (std::int64_t i = 0; i < layer.n; ++i) {
    const unsigned char* at = data + (first + i) * size_of(values->dtype);
    float& out = bias[static_cast<std::size_t>(i)];
    std::uint16_t half = 0;
    if (values->dtype == DType::f32) {
      std::memcpy(&out, at, sizeof out);
    } else {
      std::memcpy(&half, at, sizeof half);
      out =
          values->dtype == DType::bf16 ? formats::bf16_to_float(half) : formats::f16_to_float(half);
    }
  }
  return bias;
}

/// The separate path: A is quantized first, then the product runs on MXFP4.
Status run_prequantized(const Plan& plan, const ConstMatrix& a, const Matrix& c,
                        std::span<std::byte> workspace, const Epilogue& epilogue,
                        const Options& options, ThreadPool* threads) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(a.rows * codes_per_row_bytes(a.cols)));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(a.rows * scales_per_row(a.cols)));
  const Mxfp4Buffer q = mxfp4_buffer(codes.data(), scales.data(), a.rows, a.cols);
  const QuantizeOptions how = {.rule = options.plan.activation_rule,
                               .non_finite = options.plan.non_finite,
                               .threads = threads};
  const Status status = quantize_activations(Device::cpu(), a, q, how);
  if (!status.is_ok()) return status;
  return plan.run(Mxfp4View(q), c, workspace, epilogue);
}

/// Y must not replace what the command reads.
Status check_output_path(const Options& options, const io::Checkpoint& checkpoint) {
  std::error_code ignored;
  const auto same = [&](const std::filesystem::path& path) {
    return std::filesystem::equivalent(path, options.output, ignored);
  };
  bool is_input = same(options.input) || same(options.file);
  for (const io::SafetensorsFile& file : checkpoint.files()) is_input |= same(file.name());
  if (!is_input) return {};
  return Status::error(StatusCode::invalid_argument, "output %s is an input of this command",
                       options.output.c_str());
}

Result<int> run(const Options& options) {
  if (options.prequantized && options.plan.activation == Activation::none) {
    return Status::error(StatusCode::invalid_argument,
                         "--prequantized quantizes A, --activation none forbids it");
  }
  if (!(std::fabs(options.alpha) <= double{std::numeric_limits<float>::max()})) {
    return Status::error(StatusCode::invalid_argument, "--alpha is beyond float32");
  }
  if (!options.kernel.empty()) {
    const Status status = check_kernel_name(options.kernel);
    if (!status.is_ok()) return status;
  }
  const auto checkpoint = io::Checkpoint::open(options.file);
  if (!checkpoint.is_ok()) return checkpoint.status();
  if (const Status s = check_output_path(options, *checkpoint); !s.is_ok()) return s;
  const auto layer = find_layer(*checkpoint, options.tensor);
  if (!layer.is_ok()) return layer.status();
  const auto array = io::read_npy(options.input);
  if (!array.is_ok()) return array.status();
  const auto a = as_activations(*array, options.input.string(), *layer);
  if (!a.is_ok()) return a.status();
  if (options.plan.activation == Activation::none && a->dtype == DType::f32) {
    return bad(options.input.string() +
               " is float32, needs float16, or bf16 as uint16, with --activation none");
  }
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  auto weights = select_weights(*layer, options);
  if (weights.is_ok()) weights = weights_for_kernel(*weights, options.kernel, threads->get());
  if (!weights.is_ok()) return weights.status();
  const auto bias = read_bias(*checkpoint, *layer, options);
  if (!bias.is_ok()) return bias.status();

  PlanOptions plan_options = options.plan;
  plan_options.kernel = options.kernel;
  plan_options.threads = threads->get();
  const auto plan = Plan::create(Device::cpu(), *weights, a->rows, plan_options);
  if (!plan.is_ok()) return plan.status();
  const std::int64_t shape[] = {a->rows, layer->n};
  std::vector<std::uint8_t> y(static_cast<std::size_t>(shape[0] * shape[1] * size_of(options.out)));
  std::vector<std::byte> workspace(plan->workspace_bytes(a->rows));
  const Matrix c(y.data(), options.out, a->rows, layer->n, layer->n);
  const Epilogue epilogue = {.alpha = static_cast<float>(options.alpha), .bias = *bias};
  const Status status = options.prequantized ? run_prequantized(*plan, *a, c, workspace, epilogue,
                                                                options, threads->get())
                                             : plan->run(*a, c, workspace, epilogue);
  if (!status.is_ok()) return status;
  watch_signals();  // until here there is nothing to clean up
  const io::NpyType type = options.out == DType::f32 ? io::NpyType::f4 : io::NpyType::u2;
  const Status written = io::write_npy(options.output, type, shape, y);
  if (!written.is_ok()) return written;
  fmt::print("{}: [{}, {}] {}, {}{}, kernel {}\n", options.output.string(), shape[0], shape[1],
             to_string(options.out), layer->name, bias->empty() ? "" : " with bias",
             plan->kernel(a->rows));
  return kDone;
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("run", "Run one MXFP4 layer: Y = X * W^T + bias");
  auto options = std::make_shared<Options>();
  sub->add_option("FILE", options->file, "A quantized checkpoint, file or folder")->required();
  sub->add_option("--tensor", options->tensor, "The layer, X or X.weight")
      ->required()
      ->type_name("NAME");
  sub->add_option("--input", options->input,
                  "Activations [M,K]: .npy of float32, float16, or bf16 as uint16")
      ->required()
      ->type_name("X.npy");
  sub->add_option("-o,--output", options->output, "File to write, [M,N]")
      ->required()
      ->type_name("Y.npy");
  add_parsed(*sub, "--out", options->out, parse_out_dtype,
             "Type of Y: f32, or bf16 written as uint16 (default f32)")
      ->type_name("DTYPE");
  add_parsed(
      *sub, "--expert", options->expert,
      [](std::string_view text) { return parse_int(text, 0, std::int64_t{1} << 31); },
      "Which expert of a [E,N,K] layer, from 0")
      ->type_name("I");
  sub->add_flag("--prequantized", options->prequantized,
                "Quantize X first, then multiply: the separate path, same bits");
  sub->add_option("--kernel", options->kernel, "Force a kernel; `mxgemm kernels` lists them")
      ->type_name("NAME");
  add_threads(*sub, options->threads);
  add_parsed(*sub, "--alpha", options->alpha, parse_number, "Factor of the product (default 1)")
      ->type_name("FACTOR");
  add_activation(*sub, options->plan.activation);
  add_reproducible(*sub, options->plan.reproducible);
  sub->footer("Example:\n  mxgemm run model-mxfp4.safetensors --tensor fc1 --input x.npy -o y.npy");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
