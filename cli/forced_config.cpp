#include "forced_config.h"

#include "mxgemm/device.h"
#include "plan/tuning_text.h"

namespace mxgemm::cli {

Result<Tuning> config_table(const std::string& kernel, const Config& config, const Shape& shape,
                            Activation activation) {
  const std::string device = Tuning::device(Device::cpu());
  const TuningRow row = {.device = device,
                         .activation = activation,
                         .m_max = shape.m,
                         .n = shape.n,
                         .k = shape.k,
                         .kernel = kernel,
                         .config = config,
                         .evidence = {.threads = 1, .us = 0, .date = "2000-01-01"}};
  return Tuning::parse(tuning_text({&row, 1}, Tuning::build()));
}

}  // namespace mxgemm::cli
