#include "terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mxgemm::cli {

std::string bytes_string(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

void print_json(const nlohmann::ordered_json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return nullptr;
}

Progress::Progress(std::int64_t total_bytes)
    : total_(std::max<std::int64_t>(total_bytes, 1)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  erase();
}

void Progress::line(std::string_view text, bool to_stderr) {
  erase();
  fmt::print(to_stderr ? stderr : stdout, "{}\n", text);
  std::fflush(stdout);
  draw();
}

void Progress::advance(std::int64_t bytes) {
  done_ += bytes;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_draw_ < std::chrono::milliseconds(100)) return;  // a terminal is slow
  last_draw_ = now;
  draw();
}

void Progress::draw() {
  if (!terminal_) return;
  constexpr int kWidth = 40;
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kWidth);
  fmt::print(stderr, "\r[{:<{}}] {:3.0f} % of {}\x1b[K",
             std::string(static_cast<std::size_t>(filled), '#'), kWidth, share * 100,
             bytes_string(static_cast<double>(total_)));
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::erase() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace mxgemm::cli
