// The shapes that are to be measured: given, built in, or the layers of a checkpoint.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layers.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/weights.h"

namespace mxgemm::cli {

struct CaseOptions {
  std::vector<Shape> shapes;
  std::string set;          // of shapes.h, or "all"; empty: none
  std::string default_set;  // when nothing else is asked for; empty: that is an error
  std::filesystem::path checkpoint;
  std::vector<std::int64_t> rows;        // M instead of the shapes' own; empty: their own
  std::vector<std::int64_t> layer_rows;  // and M for the layers of a checkpoint then
};

/// SHAPE, --shapes, --checkpoint and --m. The defaults must have been set.
void add_case_options(CLI::App& app, CaseOptions& options);

/// A shape to measure. Its weights are made when its turn comes.
struct Case {
  Shape shape;
  std::string label;
  const Layer* layer = nullptr;  // none: random weights
};

/// The cases, each once, and what keeps their layers open.
class Cases {
 public:
  /// Errors: those of io::Checkpoint::open; bad_data (a checkpoint without MXFP4 layers);
  /// invalid_argument (nothing is asked for).
  static Result<Cases> make(const CaseOptions& options);

  const std::vector<Case>& list() const noexcept { return list_; }

 private:
  Status open(const std::filesystem::path& path);
  void add(const Case& item, const std::vector<std::int64_t>& rows);

  std::vector<io::Checkpoint> checkpoint_;  // none or one
  std::vector<Layer> layers_;
  std::vector<Case> list_;
};

/// The layer's, or random ones.
Result<Weights> case_weights(const Case& item);

}  // namespace mxgemm::cli
