// What a Tuning handle points to.
#pragma once

#include <string>
#include <vector>

#include "mxgemm/tuning.h"
#include "plan/tuning.h"

namespace mxgemm {

struct Tuning::Impl {
  std::string name;
  std::string text;  // the rows point into it
  std::vector<TuningRow> rows;
};

}  // namespace mxgemm
