#include "options.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "checkpoint_output.h"
#include "mxgemm/kernels.h"
#include "mxgemm/tuning.h"

namespace mxgemm::cli {
namespace {

Status not_one_of(std::string_view text, const char* choices) {
  return Status::error(StatusCode::invalid_argument, "\"%.*s\" is not one of %s",
                       static_cast<int>(text.size()), text.data(), choices);
}

}  // namespace

Result<std::int64_t> parse_int(std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) {
    return value;
  }
  return Status::error(StatusCode::invalid_argument,
                       "\"%.*s\" is not a whole number from %lld to %lld",
                       static_cast<int>(text.size()), text.data(), static_cast<long long>(min),
                       static_cast<long long>(max));
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) {
    return value;
  }
  return Status::error(StatusCode::invalid_argument, "\"%.*s\" is not a number",
                       static_cast<int>(text.size()), text.data());
}

Result<Shape> parse_shape(std::string_view text) {
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  std::int64_t sizes[3] = {};
  std::string_view rest = text;
  for (int i = 0; i < 3; ++i) {
    const std::size_t comma = i < 2 ? rest.find(',') : rest.size();
    const auto value =
        comma == rest.npos
            ? Result<std::int64_t>(Status::error(StatusCode::invalid_argument, "no comma"))
            : parse_int(rest.substr(0, comma), 1, kMax);
    if (!value.is_ok()) {
      return Status::error(StatusCode::invalid_argument,
                           "\"%.*s\" is not a shape M,N,K of three whole numbers from 1",
                           static_cast<int>(text.size()), text.data());
    }
    sizes[i] = *value;
    if (i < 2) rest.remove_prefix(comma + 1);
  }
  return Shape{sizes[0], sizes[1], sizes[2]};
}

Result<Reproducible> parse_reproducible(std::string_view text) {
  for (const auto value : {Reproducible::run, Reproducible::batch, Reproducible::device}) {
    if (text == to_string(value)) return value;
  }
  return not_one_of(text, "run, batch, device");
}

Result<Activation> parse_activation(std::string_view text) {
  for (const auto value : {Activation::mxfp4, Activation::none}) {
    if (text == to_string(value)) return value;
  }
  return not_one_of(text, "mxfp4, none");
}

Result<DType> parse_out_dtype(std::string_view text) {
  for (const auto value : {DType::bf16, DType::f32}) {
    if (text == to_string(value)) return value;
  }
  return not_one_of(text, "bf16, f32");
}

CLI::Option* add_int(CLI::App& app, const std::string& name, std::int64_t& target, std::int64_t min,
                     std::int64_t max, const std::string& description) {
  return add_parsed(
      app, name, target, [min, max](std::string_view text) { return parse_int(text, min, max); },
      description);
}

void add_conversion_paths(CLI::App& app, ConversionPaths& paths) {
  app.add_option("IN", paths.in, "A .safetensors file, or a folder of them")->required();
  app.add_option("-o,--output", paths.out, "File or folder to write")->required()->type_name("OUT");
  app.add_flag("--force", paths.force, "Replace OUT if it exists");
}

void add_threads(CLI::App& app, int& threads) {
  add_parsed(
      app, "--threads", threads, [](std::string_view text) { return parse_int(text, 0, 1024); },
      "Threads to use; 0: all that this process may use (default 0)")
      ->type_name("N");
}

void add_seconds(CLI::App& app, double& seconds) {
  add_parsed(
      app, "--time", seconds,
      [](std::string_view text) -> Result<double> {
        auto value = parse_number(text);
        if (value.is_ok() && *value >= 0 && *value <= 3600) return value;
        return Status::error(StatusCode::invalid_argument, "\"%.*s\" is not from 0 to 3600 seconds",
                             static_cast<int>(text.size()), text.data());
      },
      "Seconds to spend on a shape (default 2)")
      ->type_name("SECONDS");
}

void add_kernel_names(CLI::App& app, std::vector<std::string>& names) {
  app.add_option("--kernel", names,
                 "Measure this kernel, may be repeated (default: all that run here but the "
                 "reference)")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void add_scale_rule(CLI::App& app, ScaleRule& rule) {
  add_parsed(app, "--rule", rule, parse_scale_rule,
             "How a block's scale follows from its largest value: even, floor, rceil, ceil "
             "(default even)")
      ->type_name("RULE");
}

void add_non_finite(CLI::App& app, NonFinite& policy) {
  add_parsed(app, "--non-finite", policy, parse_non_finite,
             "What a block with a NaN or an infinity becomes: propagate (NaN) or saturate "
             "(default propagate)")
      ->type_name("POLICY");
}

void add_activation(CLI::App& app, Activation& activation) {
  add_parsed(app, "--activation", activation, parse_activation,
             "What A becomes before the product: mxfp4 or none (default mxfp4)")
      ->type_name("KIND");
}

void add_reproducible(CLI::App& app, Reproducible& promise) {
  add_parsed(app, "--reproducible", promise, parse_reproducible,
             "What must not change the bits of the result: run, batch, device (default run)")
      ->type_name("PROMISE");
}

void warn_about_tuning() {
  const auto table = Tuning::from_environment();
  if (!table.is_ok())
    fmt::print(stderr, "mxgemm: warning: MXGEMM_TUNING is ignored: {}\n", table.status().message());
}

Status check_kernel_name(std::string_view name) {
  std::string names;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.name == name) return {};
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  return Status::error(StatusCode::invalid_argument, "kernel \"%.*s\" is not one of %s",
                       static_cast<int>(name.size()), name.data(), names.c_str());
}

Status check_kernel_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const Status status = check_kernel_name(name); !status.is_ok()) return status;
  }
  return {};
}

}  // namespace mxgemm::cli
