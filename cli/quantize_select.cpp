#include "quantize_select.h"

#include <fmt/core.h>

#include <algorithm>

namespace mxgemm::cli {
namespace {

constexpr const char* kDefaultInclude = "(^|\\.)weight$";
constexpr const char* kDefaultExclude = "embed|lm_head|norm";

// std::regex recurses once a character: longer names could exhaust the stack.
constexpr std::size_t kMaxName = 4096;

bool is_float(const io::TensorView& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16";
}

}  // namespace

bool is_layer_weight(const io::TensorView& tensor) {
  const std::size_t rank = tensor.shape.size();
  return (rank == 2 || rank == 3) && (tensor.name == "weight" || tensor.name.ends_with(".weight"));
}

Status Selector::compile(const std::vector<std::string>& texts, const char* option,
                         std::vector<Pattern>& out) {
  for (const std::string& text : texts) {
    try {
      out.push_back({text, std::regex(text, std::regex::ECMAScript | std::regex::optimize)});
    } catch (const std::regex_error&) {
      return Status::error(StatusCode::invalid_argument, "%s: \"%s\" is not a regular expression",
                           option, text.c_str());
    }
  }
  return {};
}

Result<Selector> Selector::create(const Selection& selection) {
  Selector selector;
  selector.selection_ = selection;
  std::vector<std::string> include = selection.include, exclude = selection.exclude;
  if (include.empty()) include.emplace_back(kDefaultInclude);
  if (selection.default_exclude) exclude.emplace_back(kDefaultExclude);
  if (const Status status = compile(include, "--include", selector.include_); !status.is_ok()) {
    return status;
  }
  if (const Status status = compile(exclude, "--exclude", selector.exclude_); !status.is_ok()) {
    return status;
  }
  return selector;
}

bool Selector::included(const io::TensorView& tensor) const {
  // Without --include only matrices are linear layers; who names a tensor may mean [E,N,K] too.
  if (selection_.include.empty() && tensor.shape.size() != 2) return false;
  return is_float(tensor) &&
         std::any_of(include_.begin(), include_.end(), [&](const Pattern& pattern) {
           return std::regex_search(tensor.name, pattern.regex);
         });
}

Decision Selector::decide(const io::TensorView& tensor) const {
  if (tensor.name.size() > kMaxName) {
    return {Verdict::keep, fmt::format("its name is longer than {} bytes", kMaxName)};
  }
  if (!included(tensor)) return {};
  for (const Pattern& pattern : exclude_) {
    if (!std::regex_search(tensor.name, pattern.regex)) continue;
    const bool is_default = selection_.default_exclude && &pattern == &exclude_.back();
    return {Verdict::keep, fmt::format("its name matches {}{}", pattern.text,
                                       is_default ? " (lifted by --no-default-exclude)" : "")};
  }
  const std::size_t rank = tensor.shape.size();
  if (rank != 2 && rank != 3) {
    return {Verdict::keep, fmt::format("it has {} dimensions, not [N,K] or [E,N,K]", rank)};
  }
  if (tensor.data.empty()) return {Verdict::keep, "it is empty"};
  const std::int64_t k = tensor.shape.back();
  if (k % 32 != 0 && !selection_.short_block) {
    return {Verdict::keep,
            fmt::format("K = {} is not a multiple of 32 (--short-block quantizes it)", k)};
  }
  return {Verdict::quantize, {}};
}

}  // namespace mxgemm::cli
