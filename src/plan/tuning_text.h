// Tuning tables as text, written by `mxgemm tune` and read at creation of a plan. Lines of single
// spaces between words:
//
//   mxgemm-tuning 1
//   build 0.1.0-0123456789abcdef
//   # a comment
//   row cpu-amd-25-17-avx512vnni mxfp4 16 2112 7168 cpu_avx512vnni block_m=4,block_n=32 1 1639.34
//       0.1700 2026-12-01                                                     (all in one line)
//   end 1 0123456789abcdef
//
// A row: device, activation, m_max, n, k, kernel, config, threads, microseconds, share of the
// floor, date. `end`: the number of rows and the FNV-1a hash of all bytes before it, so that a
// table which was cut or changed is told from a whole one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/status.h"
#include "plan/tuning.h"

namespace mxgemm {

inline constexpr std::size_t kMaxTuningBytes = std::size_t{1} << 20;  // about 8,000 rows

/// "0.1.0-0123456789abcdef": the version, and a hash of the kernels' names, layouts, promises and
/// configs. A table of another build is stale.
std::string tuning_build(std::span<const KernelDesc* const> kernels);

/// The lines above for rows; `end` included.
std::string tuning_text(std::span<const TuningRow> rows, std::string_view build);

/// The last line for `body`, which holds `num_rows` rows.
std::string tuning_end_line(std::string_view body, std::size_t num_rows);

/// Rows that point into `text`. Strict: every row names a kernel of `kernels` that takes its
/// activation, and one of that kernel's configs.
/// Errors: bad_data (names the line), unsupported (a table of another build).
Result<std::vector<TuningRow>> parse_tuning(std::string_view text, std::string_view build,
                                            std::span<const KernelDesc* const> kernels);

}  // namespace mxgemm
