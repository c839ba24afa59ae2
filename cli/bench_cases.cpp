#include "bench_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench_measure.h"
#include "options.h"
#include "shapes.h"

namespace mxgemm::cli {

void add_case_options(CLI::App& app, CaseOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "SHAPE",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto shape = parse_shape(text);
             if (!shape.is_ok()) throw CLI::ValidationError("SHAPE", shape.status().c_str());
             options.shapes.push_back(*shape);
           }
         },
         "Shapes M,N,K")
      ->type_name("M,N,K");
  std::string sets = "Built-in shapes: original, llm, all";
  if (!options.default_set.empty()) {
    sets += fmt::format(" (default when no other shape is asked for: {})", options.default_set);
  }
  app.add_option("--shapes", options.set, sets)
      ->check(CLI::IsMember({"original", "llm", "all"}))
      ->type_name("SET");
  app.add_option("--checkpoint", options.checkpoint,
                 "The layers of a quantized checkpoint, one of each size")
      ->type_name("FILE");
  add_list(
      app, "--m", options.rows,
      [](std::string_view text) { return parse_int(text, 1, std::int64_t{1} << 20); },
      fmt::format("Rows of A instead of the shapes' own, and for --checkpoint (default {})",
                  fmt::join(options.layer_rows, ",")))
      ->type_name("M,...");
}

Status Cases::open(const std::filesystem::path& path) {
  auto opened = io::Checkpoint::open(path);
  if (!opened.is_ok()) return opened.status();
  checkpoint_.push_back(std::move(*opened));
  auto found = find_layers(checkpoint_.front());
  if (!found.is_ok()) return found.status();
  layers_ = std::move(*found);
  if (!layers_.empty()) return {};
  return Status::error(StatusCode::bad_data, "%s has no MXFP4 layer", path.c_str());
}

void Cases::add(const Case& item, const std::vector<std::int64_t>& rows) {
  const auto add_once = [&](const Shape& shape) {
    const auto same = [&](const Case& other) {
      return other.shape.m == shape.m && other.shape.n == shape.n && other.shape.k == shape.k &&
             (other.layer == nullptr) == (item.layer == nullptr);
    };
    if (std::none_of(list_.begin(), list_.end(), same)) {
      list_.push_back({shape, item.label, item.layer});
    }
  };
  if (rows.empty()) add_once(item.shape);
  for (const std::int64_t m : rows) add_once({m, item.shape.n, item.shape.k});
}

Result<Cases> Cases::make(const CaseOptions& options) {
  const bool any = !options.shapes.empty() || !options.set.empty() || !options.checkpoint.empty();
  const std::string& set = any ? options.set : options.default_set;
  if (!any && set.empty()) {
    return Status::error(StatusCode::invalid_argument,
                         "nothing to measure: give a SHAPE, --shapes or --checkpoint");
  }
  Cases cases;
  if (!options.checkpoint.empty()) {
    if (const Status status = cases.open(options.checkpoint); !status.is_ok()) return status;
  }
  for (const Shape& shape : options.shapes) cases.add({shape, "given"}, options.rows);
  for (const NamedShape& row : kShapes) {
    if (set == row.set || set == "all") {
      cases.add({row.shape, std::string(row.set)}, options.rows);
    }
  }
  const auto& layer_rows = options.rows.empty() ? options.layer_rows : options.rows;
  for (const Layer& layer : cases.layers_) {  // those of one size are alike
    cases.add({{1, layer.n, layer.k}, layer.name, &layer}, layer_rows);
  }
  return cases;
}

Result<Weights> case_weights(const Case& item) {
  if (item.layer == nullptr) return random_weights(item.shape.n, item.shape.k);
  auto weights = layer_weights(*item.layer);
  if (weights.is_ok() && item.layer->stacked) return weights->slice(0);
  return weights;
}

}  // namespace mxgemm::cli
