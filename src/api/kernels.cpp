#include "mxgemm/kernels.h"

#include "backend/cpu/isa.h"
#include "plan/kernel.h"

namespace mxgemm {

std::vector<KernelInfo> kernels() {
  std::vector<KernelInfo> rows;
  for (const KernelDesc* kernel : registry()) {
    KernelInfo row;
    row.name = kernel->name;
    row.device = kernel->device;
    row.layouts.assign(kernel->layouts.begin(), kernel->layouts.end());
    row.mxfp4 = kernel->mxfp4;
    row.none = kernel->none;
    row.error_class = kernel->error_class;
    row.needs = kernel->needs;
    const Problem small{.shape = {1, 16, 128},
                        .layout = kernel->layouts.front(),
                        .activation = kernel->mxfp4 ? Activation::mxfp4 : Activation::none,
                        .reproducible = Reproducible::run};
    const Status here = check_support(*kernel, small, Device{kernel->device, 0});
    row.runs_here = here.is_ok();
    row.why_not = here.message();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string cpu_isa() {
  const Result<cpu::Isa> isa = cpu::usable_isa();
  return std::string(isa.is_ok() ? cpu::to_string(*isa) : isa.status().message());
}

}  // namespace mxgemm
