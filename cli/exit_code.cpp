#include "exit_code.h"

#include <fmt/core.h>

#include <cstdio>

namespace mxgemm::cli {

int exit_code(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok:
      return kDone;
    case StatusCode::invalid_argument:
      return kUsage;
    case StatusCode::bad_data:
      return kBadInput;
    case StatusCode::unsupported:
    case StatusCode::out_of_memory:
      return kUnsupported;
    case StatusCode::io_error:
      return kIoError;
  }
  return kIoError;
}

void print_error(std::string_view sentence) {
  std::fflush(stdout);  // so that what was said before the error stands before it
  fmt::print(stderr, "mxgemm: {}\n", sentence);
}

int report(const Status& error) {
  print_error(error.message());
  return exit_code(error.code());
}

}  // namespace mxgemm::cli
