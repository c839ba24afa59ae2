// Rows go in batches: the threads quantize a batch, each task a group of rows that it then looks
// at again for the statistics while they are in its cache; the batch's codes are written at once.
#include "quantize_tensor.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interrupt.h"

namespace mxgemm::cli {
namespace {

constexpr std::int64_t kTaskElements = 128 << 10;  // 512 KB of float32: fits a core's L2
constexpr std::int64_t kTasksPerThread = 8;        // evens out unequal threads

/// How many rows a task takes, and how many a batch.
struct Batching {
  std::int64_t task_rows, batch_rows;

  Batching(std::int64_t rows, std::int64_t cols, const ThreadPool& threads)
      : task_rows(std::clamp<std::int64_t>(kTaskElements / std::max<std::int64_t>(cols, 1), 1,
                                           std::max<std::int64_t>(rows, 1))),
        batch_rows(std::min(rows, task_rows * kTasksPerThread * threads.num_threads())) {}

  std::int64_t num_tasks(std::int64_t rows) const { return (rows + task_rows - 1) / task_rows; }
};

struct BatchJob {
  ConstMatrix x;
  Mxfp4Buffer q;
  QuantizeOptions options;
  std::int64_t task_rows = 0;
  std::vector<QuantStats> stats;  // one a task, merged in order: the same sums for any threads
  std::vector<Status> outcomes;
};

void quantize_task(void* context, std::int64_t index) noexcept {
  auto& job = *static_cast<BatchJob*>(context);
  const std::int64_t first = index * job.task_rows;
  const std::int64_t rows = std::min(job.task_rows, job.x.rows - first);
  const auto* data = static_cast<const unsigned char*>(job.x.data) +
                     first * job.x.row_stride * size_of(job.x.dtype);
  const ConstMatrix x(data, job.x.dtype, rows, job.x.cols, job.x.row_stride);
  const Mxfp4Buffer q = mxfp4_buffer(job.q.codes + first * job.q.codes_stride,
                                     job.q.scales + first * job.q.scales_stride, rows, x.cols);
  const auto i = static_cast<std::size_t>(index);
  job.outcomes[i] = quantize(x, q, job.options);
  if (job.outcomes[i].is_ok()) add_rows(job.stats[i], x, q);
}

}  // namespace

Status quantize_tensor(const ConstMatrix& x, const QuantizeOptions& options, ThreadPool& threads,
                       io::SafetensorsWriter& writer, QuantStats& stats, Progress& progress) {
  const Batching batching(x.rows, x.cols, threads);
  const std::int64_t row_codes = codes_per_row_bytes(x.cols), row_scales = scales_per_row(x.cols);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(batching.batch_rows * row_codes));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(x.rows * row_scales));
  BatchJob job;
  job.options = options;
  job.options.threads = nullptr;  // a task is one thread's work
  job.task_rows = batching.task_rows;
  for (std::int64_t first = 0; first < x.rows; first += batching.batch_rows) {
    if (const Status status = check_interrupted(); !status.is_ok()) return status;
    const std::int64_t rows = std::min(batching.batch_rows, x.rows - first);
    const std::int64_t num_tasks = batching.num_tasks(rows);
    const std::int64_t row_bytes = x.row_stride * size_of(x.dtype);
    job.x = ConstMatrix(static_cast<const unsigned char*>(x.data) + first * row_bytes, x.dtype,
                        rows, x.cols, x.row_stride);
    job.q = mxfp4_buffer(codes.data(), scales.data() + first * row_scales, rows, x.cols);
    job.stats.assign(static_cast<std::size_t>(num_tasks), {});
    job.outcomes.assign(static_cast<std::size_t>(num_tasks), {});
    threads.run(num_tasks, quantize_task, &job);
    for (const Status& outcome : job.outcomes) {
      if (!outcome.is_ok()) return outcome;
    }
    for (const QuantStats& part : job.stats) stats.merge(part);
    const auto bytes = static_cast<std::size_t>(rows * row_codes);
    if (const Status status = writer.write({codes.data(), bytes}); !status.is_ok()) return status;
    progress.advance(rows * row_bytes);
  }
  return writer.write(scales);
}

Status dequantize_tensor(const Mxfp4View& q, DType dtype, ThreadPool& threads,
                         io::SafetensorsWriter& writer, Progress& progress) {
  const Batching batching(q.rows, q.cols, threads);
  const std::int64_t row_bytes = q.cols * size_of(dtype);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(batching.batch_rows * row_bytes));
  for (std::int64_t first = 0; first < q.rows; first += batching.batch_rows) {
    if (const Status status = check_interrupted(); !status.is_ok()) return status;
    const std::int64_t rows = std::min(batching.batch_rows, q.rows - first);
    const Mxfp4View part = {q.codes + first * q.codes_stride,
                            q.scales + first * q.scales_stride,
                            rows,
                            q.cols,
                            q.codes_stride,
                            q.scales_stride};
    const Matrix out(values.data(), dtype, rows, q.cols, q.cols);
    if (const Status status = dequantize(part, out, &threads); !status.is_ok()) return status;
    const auto bytes = static_cast<std::size_t>(rows * row_bytes);
    if (const Status status = writer.write({values.data(), bytes}); !status.is_ok()) return status;
    progress.advance(rows * codes_per_row_bytes(q.cols));
  }
  return {};
}

}  // namespace mxgemm::cli
