// From measurements to tuning rows, and to the table that holds them.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_measure.h"
#include "mxgemm/status.h"
#include "mxgemm/tuning.h"
#include "plan/tuning.h"

namespace mxgemm::cli {

/// Rows with the text that their views point to.
struct MeasuredRows {
  std::string device, date;
  std::vector<TuningRow> rows;
};

/// The fastest candidate for each promise: one row, or more where a kernel that is not the fastest
/// keeps a stronger promise. By the cold medians.
std::vector<TuningRow> best_rows(const ShapeTiming& timing, Activation activation);

/// Adds the rows of one shape, with device and date, in place of earlier ones for the same.
void add_rows(MeasuredRows& out, const std::vector<TuningRow>& rows);

/// As src/plan/tuning_cpu.inc has it, with the command that measures it again.
std::string inc_row(const TuningRow& row);

/// The table that is at `path` already; none when there is no file. Errors: a file that is no
/// table of this build (`force`: none then).
Result<std::optional<Tuning>> existing_table(const std::filesystem::path& path, bool force);

/// A table of both; where the same was measured, of the new rows only.
/// Errors: unsupported (longer than a table may be).
Result<std::string> merged_table(std::span<const TuningRow> old_rows,
                                 std::span<const TuningRow> new_rows);

}  // namespace mxgemm::cli
