// How a plan is made to take one config of a kernel, whatever it would choose itself.
#pragma once

#include <string>

#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/tuning.h"
#include "plan/kernel.h"

namespace mxgemm::cli {

/// A table for PlanOptions::tuning that names this kernel and config for all M up to the shape's.
Result<Tuning> config_table(const std::string& kernel, const Config& config, const Shape& shape,
                            Activation activation);

}  // namespace mxgemm::cli
