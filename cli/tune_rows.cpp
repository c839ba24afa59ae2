#include "tune_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>

#include "mxgemm/device.h"
#include "plan/config.h"
#include "plan/tuning_text.h"

namespace mxgemm::cli {
namespace {

std::string today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day date(days);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::string command_for(const TuningRow& row) {
  std::string command = fmt::format("mxgemm tune {},{},{} --threads {}", row.m_max, row.n, row.k,
                                    row.evidence.threads);
  if (row.activation != Activation::mxfp4) {
    command += fmt::format(" --activation {}", to_string(row.activation));
  }
  return command;
}

/// The fastest of those that keep the promise; none when none could be measured.
const Contestant* fastest(const ShapeTiming& timing, Activation activation, Reproducible promise) {
  const Contestant* best = nullptr;
  for (const Contestant& kernel : timing.kernels) {
    if (!kernel.skipped.empty() || !kernel.mismatch.empty() || kernel.runs == 0) continue;
    if (find_kernel(kernel.name)->promise(activation) < promise) continue;
    if (best == nullptr || kernel.cold.median_us < best->cold.median_us) best = &kernel;
  }
  return best;
}

}  // namespace

std::vector<TuningRow> best_rows(const ShapeTiming& timing, Activation activation) {
  std::vector<TuningRow> rows;
  const Contestant* last = nullptr;
  for (const auto promise : {Reproducible::run, Reproducible::batch, Reproducible::device}) {
    const Contestant* best = fastest(timing, activation, promise);
    if (best == nullptr || best == last) continue;
    last = best;
    TuningRow row;
    row.activation = activation;
    row.m_max = timing.shape.m;
    row.n = timing.shape.n;
    row.k = timing.shape.k;
    row.kernel = find_kernel(best->name)->name;
    row.config = best->config.value_or(Config{});
    row.evidence.threads = timing.num_threads;
    row.evidence.us = best->cold.median_us;
    row.evidence.share_of_floor = timing.floor_cold.median_us / best->cold.median_us;
    rows.push_back(row);
  }
  return rows;
}

void add_rows(MeasuredRows& out, const std::vector<TuningRow>& rows) {
  if (out.device.empty()) {
    out.device = Tuning::device(Device::cpu());
    out.date = today();
  }
  std::vector<TuningRow> complete = rows;
  for (TuningRow& row : complete) {
    row.device = out.device;
    row.evidence.date = out.date;
    std::erase_if(out.rows, [&](const TuningRow& old) { return old.same_case(row); });
  }
  out.rows.insert(out.rows.end(), complete.begin(), complete.end());
}

std::string inc_row(const TuningRow& row) {
  std::string config;
  for (const ConfigField& field : kConfigFields) {
    const int value = row.config.*field.member;
    if (value == field.unset) continue;
    config += fmt::format("{}.{} = {}", config.empty() ? "" : ", ", field.name, value);
  }
  return fmt::format(
      "{{\"{}\", Activation::{}, {}, {}, {}, \"{}\",\n {{{}}}, {{{}, {:.2f}, {:.4f}, \"{}\", "
      "\"{}\"}}}},",
      row.device, to_string(row.activation), row.m_max, row.n, row.k, row.kernel, config,
      row.evidence.threads, row.evidence.us, row.evidence.share_of_floor, row.evidence.date,
      command_for(row));
}

Result<std::optional<Tuning>> existing_table(const std::filesystem::path& path, bool force) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::optional<Tuning>();
  auto table = Tuning::load(path.string());
  if (table.is_ok()) return std::optional<Tuning>(std::move(*table));
  if (force) return std::optional<Tuning>();
  return Status::error(table.status().code(), "%s (--force replaces the file)",
                       table.status().c_str());
}

Result<std::string> merged_table(std::span<const TuningRow> old_rows,
                                 std::span<const TuningRow> new_rows) {
  std::vector<TuningRow> rows(new_rows.begin(), new_rows.end());
  for (const TuningRow& old : old_rows) {
    if (std::none_of(new_rows.begin(), new_rows.end(),
                     [&](const TuningRow& row) { return row.same_case(old); })) {
      rows.push_back(old);
    }
  }
  const auto key = [](const TuningRow& r) {
    return std::tuple(r.device, r.activation, r.n, r.k, r.m_max, r.evidence.us);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const TuningRow& a, const TuningRow& b) { return key(a) < key(b); });
  std::string text = tuning_text(rows, Tuning::build());
  if (text.size() <= kMaxTuningBytes) return text;
  return Status::error(StatusCode::unsupported, "a table of %zu rows is longer than %zu bytes",
                       rows.size(), kMaxTuningBytes);
}

}  // namespace mxgemm::cli
