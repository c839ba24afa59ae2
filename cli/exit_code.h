// What the process returns, and the one place that turns an error into it.
#pragma once

#include <string_view>

#include "mxgemm/status.h"

namespace mxgemm::cli {

enum ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,  // a check failed, a difference was found
  kUsage = 2,        // the command line cannot work as given
  kBadInput = 3,     // a file is not what it has to be
  kUnsupported = 4,  // nothing here can do it
  kIoError = 5,      // the system refused to read or write
};

int exit_code(StatusCode code) noexcept;

/// Prints "mxgemm: <sentence>" to stderr.
void print_error(std::string_view sentence);

/// Prints the error and returns its exit code.
int report(const Status& error);

}  // namespace mxgemm::cli
