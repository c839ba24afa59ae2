#include "dequantize_gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "exit_code.h"
#include "interrupt.h"
#include "io/gguf.h"
#include "io/text.h"
#include "quantize_tensor.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

constexpr std::int64_t kPieceBytes = 4 << 20;  // of a tensor, at a time

bool is_mxfp4(const io::GgufTensor& tensor) {
  return tensor.type->id == io::kGgmlMXFP4;
}

/// What to write. Types of single elements have the same names in both formats.
Result<std::vector<io::TensorSpec>> plan(const io::GgufFile& file, DType dtype) {
  std::vector<io::TensorSpec> specs;
  std::size_t num_layers = 0;
  for (const io::GgufTensor& tensor : file.tensors()) {
    std::string type(tensor.type->name);
    if (is_mxfp4(tensor)) {
      if (const auto weights = file.weights(tensor); !weights.is_ok()) return weights.status();
      type = dtype == DType::f32 ? "F32" : "BF16";
      ++num_layers;
    } else if (tensor.type->block != 1) {
      return Status::error(
          StatusCode::unsupported,
          "%s: tensor %s is %s, only MXFP4 and types that are not quantized can be written",
          io::display_name(file.name()).c_str(), io::quote(tensor.name).c_str(), type.c_str());
    }
    specs.push_back(
        {std::string(tensor.name), type, {tensor.shape().begin(), tensor.shape().end()}});
  }
  if (num_layers > 0) return specs;
  return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer",
                       io::display_name(file.name()).c_str());
}

/// Unpacks some rows at a time, so that memory stays small whatever the tensor's size.
Status write_layer(const io::GgufFile& file, const io::GgufTensor& tensor, DType dtype,
                   ThreadPool& threads, io::SafetensorsWriter& writer, Progress& progress) {
  constexpr std::int64_t kBlock = 32, kBlockBytes = 17;
  const std::int64_t k = tensor.shape().back();
  const std::int64_t row_bytes = k / kBlock * kBlockBytes;
  const std::int64_t rows = static_cast<std::int64_t>(tensor.data.size()) / row_bytes;
  const std::int64_t step = std::clamp<std::int64_t>(kPieceBytes / row_bytes, 1, rows);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(step * codes_per_row_bytes(k)));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(step * scales_per_row(k)));
  Weights::Options options;
  options.keep_alive = std::make_shared<io::GgufFile>(file);  // borrowed, not copied
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t n = std::min(step, rows - first);
    const auto part = tensor.data.subspan(static_cast<std::size_t>(first * row_bytes),
                                          static_cast<std::size_t>(n * row_bytes));
    const auto weights = Weights::from_gguf(n, k, part, options);
    if (!weights.is_ok()) return weights.status();
    const Mxfp4Buffer unpacked = mxfp4_buffer(codes.data(), scales.data(), n, k);
    Status status = weights->copy_row_major(unpacked, &threads);
    if (status.is_ok()) status = dequantize_tensor(unpacked, dtype, threads, writer, progress);
    if (!status.is_ok()) return status;
  }
  progress.line(fmt::format("{} [{} x {}] -> {}", io::printable(tensor.name, 200), rows, k,
                            to_string(dtype)));
  return {};
}

Status write_tensor(const io::GgufTensor& tensor, io::SafetensorsWriter& writer,
                    Progress& progress) {
  for (auto rest = tensor.data; !rest.empty();) {
    if (const Status status = check_interrupted(); !status.is_ok()) return status;
    const auto piece = rest.first(std::min<std::size_t>(rest.size(), kPieceBytes));
    if (const Status status = writer.write(piece); !status.is_ok()) return status;
    progress.advance(static_cast<std::int64_t>(piece.size()));
    rest = rest.subspan(piece.size());
  }
  return {};
}

}  // namespace

Result<int> dequantize_gguf(const ConversionPaths& paths, DType dtype, ThreadPool& threads) {
  const auto file = io::GgufFile::open(paths.in);
  if (!file.is_ok()) return file.status();
  if (const Status status = check_output(paths, false); !status.is_ok()) return status;
  const auto specs = plan(*file, dtype);
  if (!specs.is_ok()) return specs.status();
  watch_signals();
  auto writer = io::SafetensorsWriter::create(paths.out, *specs, {});
  if (!writer.is_ok()) return writer.status();
  std::int64_t bytes = 0, num_layers = 0;
  for (const io::GgufTensor& t : file->tensors()) bytes += static_cast<std::int64_t>(t.data.size());
  Progress progress(bytes);
  for (const io::GgufTensor& tensor : file->tensors()) {
    num_layers += is_mxfp4(tensor) ? 1 : 0;
    const Status status = is_mxfp4(tensor)
                              ? write_layer(*file, tensor, dtype, threads, *writer, progress)
                              : write_tensor(tensor, *writer, progress);
    if (!status.is_ok()) return status;
    file->release(tensor);
  }
  if (const Status status = writer->commit(); !status.is_ok()) return status;
  fmt::print("{}: {} layers dequantized\n", paths.out.string(), num_layers);
  return kDone;
}

}  // namespace mxgemm::cli
