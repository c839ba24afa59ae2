// What the commands show: lines and JSON on stdout, progress on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mxgemm::cli {

/// "1.25 GB".
std::string bytes_string(double bytes);

/// Prints a document to stdout. Bytes that are no UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& document);

/// A finite number, or null: JSON has no infinity.
nlohmann::ordered_json json_number(double value);

/// A bar on stderr while it is a terminal, nothing otherwise; lines go through it so that the two
/// don't mix.
class Progress {
 public:
  explicit Progress(std::int64_t total_bytes);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Prints a line to stdout, or to stderr.
  void line(std::string_view text, bool to_stderr = false);
  void advance(std::int64_t bytes);

 private:
  void draw();
  void erase();

  std::int64_t total_ = 0, done_ = 0;
  bool terminal_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point last_draw_;
};

}  // namespace mxgemm::cli
