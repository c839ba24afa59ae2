#include "cli_testing.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

namespace mxgemm::testing {

Tensor float_tensor(const std::string& name, const std::string& dtype,
                    const std::vector<std::int64_t>& shape, unsigned seed) {
  const auto count = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  const std::vector<std::uint16_t> bf16s = random_bf16(count, seed);
  if (dtype == "BF16") return {name, dtype, shape, bytes_of(bf16s)};
  if (dtype == "F16") {
    std::vector<std::uint16_t> values;
    for (const std::uint16_t b : bf16s) {
      values.push_back(formats::float_to_f16(formats::bf16_to_float(b)));
    }
    return {name, dtype, shape, bytes_of(values)};
  }
  std::vector<float> values;
  for (const std::uint16_t b : bf16s) values.push_back(formats::bf16_to_float(b) * 1.001f);
  return {name, dtype, shape, bytes_of(values)};
}

ConstMatrix matrix_of(const Tensor& tensor) {
  const DType dtype = tensor.dtype == "BF16"  ? DType::bf16
                      : tensor.dtype == "F16" ? DType::f16
                                              : DType::f32;
  const std::int64_t k = tensor.shape.back();
  const std::int64_t rows = static_cast<std::int64_t>(tensor.bytes.size()) / size_of(dtype) / k;
  return ConstMatrix(tensor.bytes.data(), dtype, rows, k, k);
}

HostMxfp4 quantized(const Tensor& tensor, const QuantizeOptions& options) {
  const ConstMatrix matrix = matrix_of(tensor);
  HostMxfp4 q(matrix.rows, matrix.cols);
  EXPECT_OK(quantize(matrix, q.buffer(), options));
  return q;
}

void write_checkpoint(const fs::path& path, const std::vector<Tensor>& tensors,
                      const io::Metadata& metadata) {
  std::vector<io::TensorSpec> specs;
  for (const Tensor& t : tensors) specs.push_back({t.name, t.dtype, t.shape, t.bytes.size()});
  auto writer = io::SafetensorsWriter::create(path, specs, metadata);
  ASSERT_OK(writer);
  for (const Tensor& t : tensors) ASSERT_OK(writer->write(t.bytes));
  ASSERT_OK(writer->commit());
}

std::vector<Tensor> mxfp4_pair(const std::string& name, const HostMxfp4& q) {
  return {{name, "U8", {q.rows, codes_per_row_bytes(q.cols)}, q.codes},
          {name + "_scale", "U8", {q.rows, scales_per_row(q.cols)}, q.scales}};
}

pid_t CliTest::start(const std::vector<std::string>& args,
                     const std::vector<std::string>& environment) const {
  std::vector<std::string> words = {MXGEMM_COMMAND};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment;  // the first of a name is the one that counts
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = path(".out"), err = path(".err");
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, MXGEMM_COMMAND, &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << MXGEMM_COMMAND << ": " << std::strerror(error);
  return pid;
}

Outcome CliTest::wait(pid_t pid) const {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.out = io_corpus::get(path(".out"));
  outcome.err = io_corpus::get(path(".err"));
  fs::remove(path(".out"));
  fs::remove(path(".err"));
  return outcome;
}

Outcome CliTest::mxgemm(const std::vector<std::string>& args,
                        const std::vector<std::string>& environment) const {
  return wait(start(args, environment));
}

void CliTest::expect_failure(const std::vector<std::string>& args, int code,
                             const std::string& text) const {
  const Outcome outcome = mxgemm(args);
  std::string command;
  for (const std::string& arg : args) command += arg.substr(0, 200) + " ";
  EXPECT_EQ(outcome.code, code) << command << "\n" << outcome.err;
  EXPECT_NE(outcome.err.find(text), std::string::npos) << command << "\n" << outcome.err;
  EXPECT_EQ(outcome.err.rfind("mxgemm: ", 0), 0u) << command << "\n" << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << command << "\n" << outcome.err;
}

io::SafetensorsFile CliTest::open(const std::string& name) const {
  auto file = io::SafetensorsFile::open(path(name));
  EXPECT_OK(file);
  if (!file.is_ok()) std::terminate();
  return *file;
}

void CliTest::write_npy(const std::string& name, io::NpyType type,
                        const std::vector<std::int64_t>& shape,
                        const std::vector<std::uint8_t>& bytes) const {
  ASSERT_OK(io::write_npy(path(name), type, shape, bytes));
}

io::NpyArray CliTest::read_npy(const std::string& name) const {
  const auto array = io::read_npy(path(name));
  EXPECT_OK(array);
  return array.is_ok() ? *array : io::NpyArray{};
}

long watch_peak_memory(pid_t pid) {
  long peak_kb = 0;
  const std::string status = "/proc/" + std::to_string(pid) + "/status";
  for (bool running = true; running;) {
    running = false;  // a process that has ended has no VmHWM any more
    std::ifstream lines(status);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("VmHWM:", 0) != 0) continue;
      running = true;
      peak_kb = std::max(peak_kb, std::stol(line.substr(6)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return peak_kb;
}

std::vector<std::uint8_t> data_of(const io::SafetensorsFile& file, const std::string& tensor) {
  const io::TensorView* view = file.find(tensor);
  EXPECT_NE(view, nullptr) << tensor;
  if (view == nullptr) return {};
  return {view->data.begin(), view->data.end()};
}

}  // namespace mxgemm::testing
