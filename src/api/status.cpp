#include "mxgemm/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace mxgemm {

std::string_view to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid_argument";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::out_of_memory:
      return "out_of_memory";
    case StatusCode::bad_data:
      return "bad_data";
    case StatusCode::io_error:
      return "io_error";
  }
  return "?";
}

// memmove is right for an assignment to itself as well.
// NOLINTNEXTLINE(bugprone-unhandled-self-assignment)
Status& Status::operator=(const Status& other) noexcept {
  code_ = other.code_;
  std::memmove(message_, other.message_, std::strlen(other.message_) + 1);
  return *this;
}

Status Status::error(StatusCode code, const char* format, ...) noexcept {
  Status status;
  status.code_ = code;
  va_list args;
  va_start(args, format);
  if (std::vsnprintf(status.message_, sizeof status.message_, format, args) < 0)
    std::strcpy(status.message_, "error");  // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
  va_end(args);
  return status;
}

}  // namespace mxgemm
