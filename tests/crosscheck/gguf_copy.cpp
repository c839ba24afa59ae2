// Reads a GGUF file and writes what it holds, for gguf_check.py: gguf_copy IN OUT.gguf FLOATS.
// OUT.gguf has the same metadata and tensors; FLOATS has the values of every MXFP4 and float
// tensor in the file's order, as float32.
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "formats/mxfp4.h"
#include "io/atomic_file.h"
#include "io/gguf.h"
#include "mxgemm/quantize.h"

namespace {

using namespace mxgemm;

Result<std::vector<float>> mxfp4_values(const io::GgufFile& file, const io::GgufTensor& tensor) {
  const Result<Weights> w = file.weights(tensor);
  if (!w.is_ok()) return w.status();
  const std::int64_t rows = w->num_experts() * w->n();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * codes_per_row_bytes(w->k())));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(rows * scales_per_row(w->k())));
  const Mxfp4Buffer buffer = mxfp4_buffer(codes.data(), scales.data(), rows, w->k());
  if (const Status status = w->copy_row_major(buffer); !status.is_ok()) return status;
  std::vector<float> out(static_cast<std::size_t>(rows * w->k()));
  const Status status = dequantize(buffer, MatrixView<float>{out.data(), rows, w->k(), w->k()});
  if (!status.is_ok()) return status;
  return out;
}

Result<std::vector<float>> float_values(const io::GgufFile& file, const io::GgufTensor& tensor) {
  const Result<ConstMatrix> m = file.float_matrix(tensor);
  if (!m.is_ok()) return m.status();
  std::vector<float> out(static_cast<std::size_t>(m->rows * m->cols));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint8_t* const at =
        tensor.data.data() + i * static_cast<std::size_t>(size_of(m->dtype));
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, static_cast<std::size_t>(size_of(m->dtype)));
    const auto half = static_cast<std::uint16_t>(bits);
    if (m->dtype == DType::f32) out[i] = std::bit_cast<float>(bits);
    if (m->dtype == DType::f16) out[i] = formats::f16_to_float(half);
    if (m->dtype == DType::bf16) out[i] = formats::bf16_to_float(half);
  }
  return out;
}

Status copy(const char* in, const char* out, const char* floats) {
  const Result<io::GgufFile> file = io::GgufFile::open(in);
  if (!file.is_ok()) return file.status();
  std::vector<io::GgufTensorSpec> specs;
  for (const io::GgufTensor& t : file->tensors()) specs.push_back({t.name, t.type->id, t.shape()});
  Result<io::GgufWriter> writer = io::GgufWriter::create(out, specs, file->metadata());
  if (!writer.is_ok()) return writer.status();
  std::string values;
  for (const io::GgufTensor& tensor : file->tensors()) {
    if (const Status status = writer->write(tensor.data); !status.is_ok()) return status;
    const bool mxfp4 = tensor.type->id == io::kGgmlMXFP4;
    const auto decoded = mxfp4 ? mxfp4_values(*file, tensor) : float_values(*file, tensor);
    if (!decoded.is_ok() && decoded.status().code() == StatusCode::unsupported) continue;
    if (!decoded.is_ok()) return decoded.status();
    values.append(reinterpret_cast<const char*>(decoded->data()), decoded->size() * sizeof(float));
  }
  if (const Status status = writer->commit(); !status.is_ok()) return status;
  return io::write_file(floats, values);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: gguf_copy IN OUT.gguf FLOATS\n");
    return 2;
  }
  const Status status = copy(argv[1], argv[2], argv[3]);
  if (!status.is_ok()) std::fprintf(stderr, "gguf_copy: %s\n", status.c_str());
  return status.is_ok() ? 0 : 1;
}
