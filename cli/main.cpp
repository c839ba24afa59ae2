// Parses the command line, runs one command, and turns its outcome into an exit code.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "command.h"
#include "interrupt.h"
#include "mxgemm/version.h"
#include "options.h"

namespace {

using namespace mxgemm;
using namespace mxgemm::cli;

/// The parser would only say that a command is missing.
bool is_unknown_command(const CLI::App& app, const std::string& word) {
  if (word.empty() || word.front() == '-') return false;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == word) return false;
  }
  return true;
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "mxgemm";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  std::string sentence = error.what();
  for (char& c : sentence) {
    if (c == '\n') c = ' ';  // one error is one line
  }
  while (!sentence.empty() && sentence.back() == ' ') sentence.pop_back();
  print_error(fmt::format("{} (try: {} --help)", sentence, command));
  return kUsage;
}

int run_command(const Command& command) {
  try {
    warn_about_tuning();
    const Result<int> result = command();
    if (!result.is_ok()) {
      const int code = report(result.status());
      return interrupted() != 0 ? 128 + interrupted() : code;
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return report(Status::error(StatusCode::io_error, "cannot write to standard output"));
    }
    return result.value();
  } catch (const std::bad_alloc&) {
    return report(Status::error(StatusCode::out_of_memory, "out of memory"));
  } catch (const std::length_error&) {
    return report(Status::error(StatusCode::out_of_memory, "out of address space"));
  } catch (const std::exception& error) {
    return report(Status::error(StatusCode::io_error, "%s", error.what()));
  }
}

int dispatch(int argc, char** argv) {
  CLI::App app{"MXFP4 linear layers: quantize checkpoints, run and check layers, measure kernels.",
               "mxgemm"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "mxgemm " MXGEMM_VERSION);
  app.footer(
      "Example:\n  mxgemm quantize model.safetensors -o model-mxfp4.safetensors\n"
      "Exit codes: 0 done, 1 check failed, 2 usage, 3 bad input, 4 unsupported here, 5 I/O.");
  Command command;
  add_quantize(app, command);
  add_dequantize(app, command);
  add_inspect(app, command);
  add_run(app, command);
  add_verify(app, command);
  add_bench(app, command);
  add_kernels(app, command);
  add_info(app, command);
  add_explain(app, command);
  add_tune(app, command);
  if (argc > 1 && is_unknown_command(app, argv[1])) {
    print_error(fmt::format("\"{}\" is not a command (try: mxgemm --help)", argv[1]));
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  return run_command(command);
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): before `try` only memory can run out
int main(int argc, char** argv) {
  report_write_signals();
  try {
    return dispatch(argc, argv);
  } catch (...) {  // no memory even to parse the options or to print an error
    std::fputs("mxgemm: out of memory\n", stderr);
    return kUnsupported;
  }
}
