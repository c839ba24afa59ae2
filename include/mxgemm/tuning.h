// Measured choices of kernels, as `mxgemm tune` writes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mxgemm/device.h"
#include "mxgemm/export.h"
#include "mxgemm/status.h"

namespace mxgemm {

/// An immutable table in which plans look a shape up before they ask their cost model. It is loaded
/// once and shared by its copies. A row only picks among the kernels that keep the promise a plan
/// asks for, so no table can make a result wrong. docs/cli.md describes the file.
class MXGEMM_EXPORT Tuning {
 public:
  /// Errors: io_error (no regular file, or unreadable), and those of parse().
  static Result<Tuning> load(const std::string& path);
  /// `name` stands for the table in messages. Errors: bad_data (cut, changed, longer than 1 MB, or
  /// not a table: names the line), unsupported (it is of another build), out_of_memory.
  static Result<Tuning> parse(std::string_view text, std::string_view name = "the table");
  /// The table that MXGEMM_TUNING names; one without rows when the variable is not set.
  /// Errors: those of load().
  static Result<Tuning> from_environment();

  std::string_view name() const noexcept;
  std::int64_t num_rows() const noexcept;
  /// Rows that were measured on such a device.
  std::int64_t num_rows(std::string_view device) const noexcept;

  /// What rows call a device. Of a CPU: vendor, family, model, and the instruction set in use;
  /// "cpu-amd-25-17-avx512vnni".
  static std::string device(const Device& device);
  /// What tables call this build: "0.1.0-" and a hash of its kernels and their configs.
  static std::string build();

  struct Impl;
  explicit Tuning(std::shared_ptr<const Impl> impl) noexcept;
  const Impl& impl() const noexcept { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace mxgemm
