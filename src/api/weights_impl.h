// What a Weights handle points to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "layout/weights_view.h"
#include "mxgemm/weights.h"

namespace mxgemm {

struct Weights::Impl {
  WeightsView view;  // of the first expert
  std::int64_t num_experts = 1;
  std::int64_t expert_codes_bytes = 0;  // from one expert to the next
  std::int64_t expert_scales_bytes = 0;
  std::string scale_rule;
  std::shared_ptr<const void> storage;  // owns or keeps alive what `view` points to

  WeightsView expert(std::int64_t e) const noexcept {
    WeightsView v = view;
    v.codes += e * expert_codes_bytes;
    if (v.scales != nullptr) v.scales += e * expert_scales_bytes;
    return v;
  }
};

}  // namespace mxgemm
