// Options that several commands share, parsed strictly: a value that is not wholly understood is a
// usage error that names it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/plan.h"
#include "mxgemm/quantize.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/threads.h"

namespace mxgemm::cli {

struct ConversionPaths;

/// A whole number in [min, max], nothing before or after it.
Result<std::int64_t> parse_int(std::string_view text, std::int64_t min, std::int64_t max);
/// A finite decimal number.
Result<double> parse_number(std::string_view text);
/// "16,2112,7168".
Result<Shape> parse_shape(std::string_view text);
Result<Reproducible> parse_reproducible(std::string_view text);
Result<Activation> parse_activation(std::string_view text);
/// "bf16" or "f32".
Result<DType> parse_out_dtype(std::string_view text);

/// An option whose text goes through `parse` into `target`, which must outlive the parsing.
template <class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, T& target, Parse parse,
                        const std::string& description) {
  return app.add_option_function<std::string>(
      name,
      [&target, parse, name](const std::string& text) {
        auto value = parse(text);
        if (!value.is_ok()) throw CLI::ValidationError(name, value.status().c_str());
        target = static_cast<T>(*value);
      },
      description);
}

/// "1,2,4", and again: one list of what `parse` makes of each word. It replaces the default.
template <class T, class Parse>
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<T>& target, Parse parse,
                      const std::string& description) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&target, parse, name](const std::vector<std::string>& words) {
            target.clear();
            for (const std::string& word : words) {
              const auto value = parse(word);
              if (!value.is_ok()) throw CLI::ValidationError(name, value.status().c_str());
              target.push_back(static_cast<T>(*value));
            }
          },
          description)
      ->delimiter(',')
      ->allow_extra_args(false);
}

CLI::Option* add_int(CLI::App& app, const std::string& name, std::int64_t& target, std::int64_t min,
                     std::int64_t max, const std::string& description);

/// IN, -o OUT and --force of the commands that turn one checkpoint into another.
void add_conversion_paths(CLI::App& app, ConversionPaths& paths);

void add_threads(CLI::App& app, int& threads);
/// --time: seconds for a shape.
void add_seconds(CLI::App& app, double& seconds);
/// --kernel, repeated, for commands that measure.
void add_kernel_names(CLI::App& app, std::vector<std::string>& names);
void add_scale_rule(CLI::App& app, ScaleRule& rule);
void add_non_finite(CLI::App& app, NonFinite& policy);
void add_activation(CLI::App& app, Activation& activation);
void add_reproducible(CLI::App& app, Reproducible& promise);

/// Says on stderr that the table of MXGEMM_TUNING is ignored, and why, if it is.
void warn_about_tuning();

/// A kernel of the registry by name. Errors: invalid_argument (no such kernel; lists them).
Status check_kernel_name(std::string_view name);
Status check_kernel_names(const std::vector<std::string>& names);

}  // namespace mxgemm::cli
