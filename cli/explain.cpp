// mxgemm explain: which kernel a shape gets, and why the others don't.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

#include "command.h"
#include "layers.h"
#include "mxgemm/plan.h"
#include "options.h"

namespace mxgemm::cli {
namespace {

struct Options {
  std::int64_t m = 0, n = 0, k = 0;
  std::string kernel;
  PlanOptions plan;
  int threads = 0;
};

Result<int> run(const Options& options) {
  if (!options.kernel.empty()) {
    const Status status = check_kernel_name(options.kernel);
    if (!status.is_ok()) return status;
  }
  const auto threads = ThreadPool::create(options.threads);
  if (!threads.is_ok()) return threads.status();
  PlanOptions plan_options = options.plan;
  plan_options.kernel = options.kernel;
  plan_options.threads = threads->get();
  const auto text = explain(Device::cpu(), {options.m, options.n, options.k},
                            layout_for_kernel(options.kernel), plan_options);
  if (!text.is_ok()) return text.status();
  std::string_view lines = *text;
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  fmt::print("{}\n", lines);
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("explain", "Say which kernel a shape gets, and why");
  auto options = std::make_shared<Options>();
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  add_int(*sub, "M", options->m, 0, kMax, "Rows of A")->required();
  add_int(*sub, "N", options->n, 1, kMax, "Output features")->required();
  add_int(*sub, "K", options->k, 1, kMax, "Input features")->required();
  add_activation(*sub, options->plan.activation);
  add_reproducible(*sub, options->plan.reproducible);
  sub->add_option("--kernel", options->kernel, "Force a kernel; `mxgemm kernels` lists them")
      ->type_name("NAME");
  add_threads(*sub, options->threads);
  sub->footer("Example:\n  mxgemm explain 16 2112 7168");
  sub->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace mxgemm::cli
