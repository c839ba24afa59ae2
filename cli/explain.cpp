// mxgemm explain: which kernel a shape gets, and why the others don't.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "layers.h"
#include "mxgemm/plan.h"
#include "mxgemm/weights.h"
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
  // A plan looks at the weights' shape and layout, never at their values: zeros will do.
  const std::int64_t code_bytes = options.n * codes_per_row_bytes(options.k);
  const std::int64_t scale_bytes = options.n * scales_per_row(options.k);
  auto bytes = std::make_shared<std::vector<std::uint8_t>>(
      static_cast<std::size_t>(code_bytes + scale_bytes));
  const Mxfp4View view =
      mxfp4_view(bytes->data(), bytes->data() + code_bytes, options.n, options.k);
  Weights::Options how;
  how.keep_alive = bytes;
  auto weights = Weights::from_row_major(view, how);
  if (weights.is_ok()) weights = weights_for_kernel(*weights, options.kernel, threads->get());
  if (!weights.is_ok()) return weights.status();
  PlanOptions plan_options = options.plan;
  plan_options.kernel = options.kernel;
  plan_options.threads = threads->get();
  const auto plan = Plan::create(Device::cpu(), *weights, options.m, plan_options);
  if (!plan.is_ok()) return plan.status();
  std::string text = plan->explain(options.m);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  fmt::print("{}\n", text);
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
