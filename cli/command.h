// The commands of mxgemm. Each adds itself to the parser and, when it is the one that was called,
// leaves what is to be done in `chosen`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "exit_code.h"
#include "mxgemm/status.h"

namespace mxgemm::cli {

/// Does the work: an exit code, or the error that stopped it.
using Command = std::function<Result<int>()>;

void add_quantize(CLI::App& app, Command& chosen);
void add_dequantize(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_run(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_kernels(CLI::App& app, Command& chosen);
void add_info(CLI::App& app, Command& chosen);
void add_explain(CLI::App& app, Command& chosen);
void add_tune(CLI::App& app, Command& chosen);

}  // namespace mxgemm::cli
