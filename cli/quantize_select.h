// Which tensors `mxgemm quantize` quantizes, and why not the others.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "mxgemm/status.h"

namespace mxgemm::cli {

/// Whether a tensor that stays as it is belongs to a layer that a loader of the result would look
/// for: `X.weight` of two or three dimensions.
bool is_layer_weight(const io::TensorView& tensor);

struct Selection {
  std::vector<std::string> include;  // replaces the default pattern `(^|\.)weight$`
  std::vector<std::string> exclude;  // adds to the default `embed|lm_head|norm`
  bool default_exclude = true;
  bool short_block = false;  // quantize a K that is not a multiple of 32 as well
};

enum class Verdict {
  quantize,
  keep,     // could be meant, stays float for a reason worth telling
  unasked,  // biases, norms, other dtypes: nothing to say
};

struct Decision {
  Verdict verdict = Verdict::unasked;
  std::string reason;  // of keep
};

/// The patterns, compiled.
class Selector {
 public:
  /// Errors: invalid_argument (a pattern that is no regular expression).
  static Result<Selector> create(const Selection& selection);

  Decision decide(const io::TensorView& tensor) const;

 private:
  struct Pattern {
    std::string text;
    std::regex regex;
  };
  static Status compile(const std::vector<std::string>& texts, const char* option,
                        std::vector<Pattern>& out);

  bool included(const io::TensorView& tensor) const;

  Selection selection_;
  std::vector<Pattern> include_, exclude_;
};

}  // namespace mxgemm::cli
