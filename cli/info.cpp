// mxgemm info: version, build, machine.
#include <fmt/core.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "baseline.h"
#include "command.h"
#include "mxgemm/kernels.h"
#include "mxgemm/threads.h"
#include "mxgemm/tuning.h"
#include "mxgemm/version.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVariables[] = {"MXGEMM_CPU_ISA", "MXGEMM_KERNEL", "MXGEMM_TUNING"};

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

Result<int> run(bool json) {
  std::set<std::string> backends;
  int num_kernels = 0, num_running = 0;
  for (const KernelInfo& kernel : kernels()) {
    const std::string device = to_string(Device{kernel.device, 0});
    backends.insert(device.substr(0, device.find(':')));
    ++num_kernels;
    num_running += kernel.runs_here;
  }
  const auto pool = ThreadPool::create(0);
  if (!pool.is_ok()) return pool.status();
  Json document = {{"version", MXGEMM_VERSION},
                   {"compiler", compiler()},
                   {"build_type", MXGEMM_BUILD_TYPE},
                   {"backends", backends},
                   {"num_kernels", num_kernels},
                   {"num_kernels_here", num_running},
                   {"cpu_isa", cpu_isa()},
                   {"num_threads", (*pool)->num_threads()},
                   {"baselines", Json::array()},
                   {"tuning_device", Tuning::device(Device::cpu())},
                   {"tuning_build", Tuning::build()},
                   {"environment", Json::object()}};
  for (const BaselineInfo& info : baselines()) {
    if (info.built) document["baselines"].push_back(info.name);
  }
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) document["environment"][name] = value;
  }
  if (json) {
    print_json(document);
    return kDone;
  }
  std::string names;
  for (const std::string& name : backends) names += (names.empty() ? "" : ", ") + name;
  fmt::print("mxgemm {}\nbuilt with {}, {}; backends: {}; {} kernels, {} run here\n",
             MXGEMM_VERSION, compiler(), MXGEMM_BUILD_TYPE, names, num_kernels, num_running);
  fmt::print("CPU instruction set used: {}; threads: {}\n", cpu_isa(), (*pool)->num_threads());
  fmt::print("libraries for bench --against: {}\n", built_baselines());
  fmt::print("tuning tables: device {}, build {}\n", Tuning::device(Device::cpu()),
             Tuning::build());
  for (const auto& [name, value] : document["environment"].items()) {
    fmt::print("{}={}\n", name, value.get<std::string>());
  }
  return kDone;
}

}  // namespace

void add_info(CLI::App& app, Command& chosen) {
  CLI::App* sub = app.add_subcommand("info", "Version, build, machine, variables in force");
  auto json = std::make_shared<bool>(false);
  sub->add_flag("--json", *json, "As JSON");
  sub->footer("Example:\n  mxgemm info");
  sub->callback([json, &chosen] { chosen = [json] { return run(*json); }; });
}

}  // namespace mxgemm::cli
