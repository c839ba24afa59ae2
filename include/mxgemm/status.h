// Errors are values: every fallible call returns a Status or a Result<T>.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "mxgemm/export.h"

namespace mxgemm {

enum class StatusCode : int {
  ok = 0,
  invalid_argument = 1,  // a value the caller passed can never work
  unsupported = 2,       // legal, but nothing built or present here can do it
  out_of_memory = 3,
  bad_data = 4,  // a file or a tensor is not what it claims to be
  io_error = 5,  // the operating system refused to read or write
};

/// Name of a code, for logs: "invalid_argument".
MXGEMM_EXPORT std::string_view to_string(StatusCode code) noexcept;

/// The outcome of a call: ok, or a code and one sentence that names the argument, what it was and
/// what is needed. Holds its text inline, so making, copying and returning one never allocates.
class [[nodiscard]] MXGEMM_EXPORT Status {
 public:
  static constexpr int kMaxMessage = 503;  // longer sentences are cut here

  Status() noexcept { message_[0] = '\0'; }
  Status(const Status& other) noexcept { *this = other; }
  Status& operator=(const Status& other) noexcept;

  /// printf-style; no floating-point conversions (they may allocate).
  [[gnu::format(printf, 2, 3)]] static Status error(StatusCode code, const char* format,
                                                    ...) noexcept;

  bool is_ok() const noexcept { return code_ == StatusCode::ok; }
  StatusCode code() const noexcept { return code_; }
  /// Empty when ok. Points into this object.
  std::string_view message() const noexcept { return message_; }
  const char* c_str() const noexcept { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  char message_[kMaxMessage + 1];
};

/// A T, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}               // NOLINT(google-explicit-constructor)
  Result(const Status& status) noexcept : status_(status) {}  // NOLINT(google-explicit-constructor)

  bool is_ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  /// Only when is_ok().
  T& value() & noexcept { return *value_; }
  const T& value() const& noexcept { return *value_; }
  T&& value() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace mxgemm
