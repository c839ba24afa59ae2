// What `mxgemm bench` shows of its measurements.
#pragma once

#include <nlohmann/json.hpp>

#include "bench_measure.h"

namespace mxgemm::cli {

/// `first`: the same shape with the first number of threads, which scaling is relative to.
nlohmann::ordered_json to_json(const ShapeTiming& timing, const ShapeTiming& first);
void print_timing(const ShapeTiming& timing, const ShapeTiming& first);

}  // namespace mxgemm::cli
