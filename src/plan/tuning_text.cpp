#include "plan/tuning_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "mxgemm/version.h"
#include "plan/config.h"

namespace mxgemm {
namespace {

constexpr std::string_view kMagic = "mxgemm-tuning 1";
constexpr std::size_t kRowWords = 12;  // "row" included
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr int kMaxThreads = 1024;  // of a ThreadPool

class Fnv1a {
 public:
  void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) {
      hash_ ^= static_cast<unsigned char>(byte);
      hash_ *= 0x100000001B3u;
    }
  }
  std::string hex() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash_ >> shift & 15u];
    return text;
  }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

/// Without a locale, which could turn the point into a comma.
std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer;  // the largest double has 309 digits before the point
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::fixed, decimals);
  return {buffer.data(), error == std::errc() ? end : buffer.data()};
}

template <class T>
bool read_number(std::string_view word, T& value) noexcept {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && stop == end;
}

bool is_size(std::string_view word, std::int64_t& value) noexcept {
  return read_number(word, value) && value >= 1 && value <= kMaxSize;
}

/// A finite number from 0 that is written like one: no sign, no hexadecimal, no exponent.
bool is_decimal(std::string_view word, double& value) noexcept {
  return word.find_first_not_of("0123456789.") == word.npos && read_number(word, value) &&
         std::isfinite(value);
}

bool is_device(std::string_view word) noexcept {
  return !word.empty() && word.size() <= 100 && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

bool is_date(std::string_view word) noexcept {
  if (word.size() != 10) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? word[i] != '-' : word[i] < '0' || word[i] > '9') return false;
  }
  return true;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view build,
         std::span<const KernelDesc* const> kernels) noexcept
      : text_(text), build_(build), kernels_(kernels) {}

  Result<std::vector<TuningRow>> parse();

 private:
  Status bad(const char* what) const noexcept {
    return Status::error(StatusCode::bad_data, "line %zu %s", line_number_, what);
  }
  /// "line 7: kernel is 'cpu_foo', must be one that `mxgemm kernels` lists".
  Status bad_word(const char* field, std::string_view word, const char* need) const noexcept {
    return Status::error(StatusCode::bad_data, "line %zu: %s is '%.*s', must be %s", line_number_,
                         field, static_cast<int>(std::min<std::size_t>(word.size(), 60)),
                         word.data(), need);
  }
  bool next_line() noexcept;
  Status read_header();
  Status read_row();
  Status read_end() const;
  Status check_kernel(TuningRow& row, std::string_view config) const;
  Status check_repeats() const;

  std::string_view text_, build_;
  std::span<const KernelDesc* const> kernels_;
  std::size_t at_ = 0, line_begin_ = 0, line_number_ = 0;
  std::string_view line_;
  std::vector<TuningRow> rows_;
};

/// The next line that is no comment; false at the end, or where a line has no end.
bool Parser::next_line() noexcept {
  do {
    const std::size_t end = text_.find('\n', at_);
    ++line_number_;
    if (end == text_.npos) return false;
    line_begin_ = at_;
    line_ = text_.substr(at_, end - at_);
    at_ = end + 1;
  } while (line_.starts_with('#'));
  return true;
}

Status Parser::read_header() {
  if (!next_line() || line_ != kMagic) return bad("is not 'mxgemm-tuning 1': no tuning table");
  if (!next_line() || !line_.starts_with("build ")) return bad("must be 'build VERSION-HASH'");
  if (const std::string_view build = line_.substr(6); build != build_)
    return Status::error(StatusCode::unsupported,
                         "it is for build %.*s, this is build %.*s: run `mxgemm tune` again",
                         static_cast<int>(std::min<std::size_t>(build.size(), 60)), build.data(),
                         static_cast<int>(build_.size()), build_.data());
  return {};
}

Status Parser::check_kernel(TuningRow& row, std::string_view config_word) const {
  const auto found = std::find_if(kernels_.begin(), kernels_.end(), [&](const KernelDesc* kernel) {
    return kernel->name == row.kernel;
  });
  if (found == kernels_.end())
    return bad_word("kernel", row.kernel, "one that `mxgemm kernels` lists");
  if (!(*found)->promise(row.activation))
    return bad_word("kernel", row.kernel, "one that takes the row's activation");
  const Result<Config> config = parse_config_word(config_word);
  if (!config.is_ok()) return bad(config.status().c_str());
  const auto& configs = (*found)->configs;
  if (std::find(configs.begin(), configs.end(), *config) == configs.end())
    return bad_word("config", config_word, "one of its kernel's");
  row.config = *config;
  return {};
}

Status Parser::read_row() {
  std::array<std::string_view, kRowWords> words;
  std::size_t count = 0;
  for (std::string_view rest = line_;;) {
    const std::size_t space = rest.find(' ');
    if (count == 1 && words[0] != "row") return bad_word("its first word", words[0], "row or end");
    if (count == kRowWords) return bad("has more than the 12 words of a row");
    words[count++] = rest.substr(0, space);
    if (space == rest.npos) break;
    rest.remove_prefix(space + 1);
  }
  if (words[0] != "row") return bad_word("its first word", words[0], "row or end");
  if (count != kRowWords) return bad("has fewer than the 12 words of a row");
  TuningRow row;
  row.device = words[1];
  if (!is_device(row.device))
    return bad_word("device", row.device, "a word of a-z, 0-9, '.', '-' and '_'");
  const Result<Activation> activation = parse_activation(words[2]);
  if (!activation.is_ok()) return bad_word("activation", words[2], "mxfp4 or none");
  row.activation = *activation;
  constexpr const char* kSizeNeed = "from 1 to 2^40";
  if (!is_size(words[3], row.m_max)) return bad_word("m_max", words[3], kSizeNeed);
  if (!is_size(words[4], row.n)) return bad_word("n", words[4], kSizeNeed);
  if (!is_size(words[5], row.k)) return bad_word("k", words[5], kSizeNeed);
  row.kernel = words[6];
  if (Status s = check_kernel(row, words[7]); !s.is_ok()) return s;
  Evidence& e = row.evidence;
  if (!read_number(words[8], e.threads) || e.threads < 1 || e.threads > kMaxThreads)
    return bad_word("threads", words[8], "from 1 to 1024");
  if (!is_decimal(words[9], e.us)) return bad_word("time", words[9], "a decimal number");
  if (!is_decimal(words[10], e.share_of_floor))
    return bad_word("share of the floor", words[10], "a decimal number");
  e.date = words[11];
  if (!is_date(e.date)) return bad_word("date", e.date, "like 2026-12-31");
  rows_.push_back(row);
  return {};
}

Status Parser::read_end() const {
  if (at_ != text_.size()) return bad("is followed by more: the last one must be 'end'");
  std::string want = tuning_end_line(text_.substr(0, line_begin_), rows_.size());
  want.pop_back();
  if (line_ == want) return {};
  return Status::error(StatusCode::bad_data,
                       "line %zu is not '%s': the table was cut or changed after it was written",
                       line_number_, want.c_str());
}

/// The order of two rows must not matter, so no two may say something about the same.
Status Parser::check_repeats() const {
  const auto key = [](const TuningRow& r) {
    return std::tuple(r.device, r.activation, r.n, r.k, r.m_max, r.kernel);
  };
  std::vector<TuningRow> sorted = rows_;
  std::sort(sorted.begin(), sorted.end(),
            [&](const TuningRow& a, const TuningRow& b) { return key(a) < key(b); });
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [&](const TuningRow& a, const TuningRow& b) { return key(a) == key(b); });
  if (twice == sorted.end()) return {};
  return Status::error(StatusCode::bad_data,
                       "two rows are for m %lld, n %lld, k %lld with %.*s on the same device",
                       static_cast<long long>(twice->m_max), static_cast<long long>(twice->n),
                       static_cast<long long>(twice->k), static_cast<int>(twice->kernel.size()),
                       twice->kernel.data());
}

Result<std::vector<TuningRow>> Parser::parse() {
  if (text_.size() > kMaxTuningBytes)
    return Status::error(StatusCode::bad_data, "it has %zu bytes, a tuning table at most %zu",
                         text_.size(), kMaxTuningBytes);
  if (Status s = read_header(); !s.is_ok()) return s;
  for (;;) {
    if (!next_line()) return bad("is missing or unfinished: the last one must be 'end'");
    if (line_.starts_with("end ")) break;
    if (Status s = read_row(); !s.is_ok()) return s;
  }
  if (Status s = read_end(); !s.is_ok()) return s;
  if (Status s = check_repeats(); !s.is_ok()) return s;
  return std::move(rows_);
}

}  // namespace

std::string tuning_build(std::span<const KernelDesc* const> kernels) {
  Fnv1a hash;
  const auto add = [&hash](std::string_view word) {
    hash.add(word);
    hash.add("\n");
  };
  for (const KernelDesc* kernel : kernels) {
    add(kernel->name);
    for (const Layout layout : kernel->layouts) add(to_string(layout));
    for (const auto& promise : {kernel->mxfp4, kernel->none})
      add(promise ? to_string(*promise) : "-");
    for (const Config& config : kernel->configs) add(config_word(config));
  }
  return MXGEMM_VERSION "-" + hash.hex();
}

std::string tuning_end_line(std::string_view body, std::size_t num_rows) {
  Fnv1a hash;
  hash.add(body);
  return "end " + std::to_string(num_rows) + " " + hash.hex() + "\n";
}

std::string tuning_text(std::span<const TuningRow> rows, std::string_view build) {
  std::string text = std::string(kMagic) + "\nbuild " + std::string(build) + "\n";
  for (const TuningRow& row : rows) {
    text += "row";
    const auto add = [&text](std::string_view word) { text.append(" ").append(word); };
    add(row.device);
    add(to_string(row.activation));
    for (const std::int64_t size : {row.m_max, row.n, row.k}) add(std::to_string(size));
    add(row.kernel);
    add(config_word(row.config));
    add(std::to_string(row.evidence.threads));
    add(fixed(row.evidence.us, 2));
    add(fixed(row.evidence.share_of_floor, 4));
    add(row.evidence.date);
    text += '\n';
  }
  return text + tuning_end_line(text, rows.size());
}

Result<std::vector<TuningRow>> parse_tuning(std::string_view text, std::string_view build,
                                            std::span<const KernelDesc* const> kernels) {
  return Parser(text, build, kernels).parse();
}

}  // namespace mxgemm
