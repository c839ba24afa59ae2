// Plan::explain: what was chosen at creation, and every kernel's verdict.
#include <cstdio>
#include <string>

#include "api/plan_impl.h"

namespace mxgemm {
namespace {

/// All verdicts on one M, a line each: cannot and why, or the estimate.
std::string describe(const Choice& choice) {
  std::string text;
  for (const Candidate& candidate : choice.candidates) {
    text += "  " + std::string(candidate.kernel->name) + ": ";
    if (!candidate.verdict.is_ok()) {
      text += candidate.verdict.message();
    } else {
      char estimate[64];
      std::snprintf(estimate, sizeof estimate, "estimated %.1f us on one thread",
                    candidate.estimate_us);
      text += (candidate.kernel == choice.kernel ? "chosen, " : "slower, ") +
              std::string(estimate) + " (" + to_string(candidate.config) + ")";
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string Plan::explain() const {
  const Impl& p = *impl_;
  std::string text =
      "plan for [m <= " + std::to_string(p.m_max) + ", n " + std::to_string(p.view.n) + ", k " +
      std::to_string(p.view.k) + "] on " + to_string(p.device) + ", weights in " +
      std::string(to_string(p.view.layout)) + ", activation " +
      std::string(to_string(p.options.activation)) + ", reproducible " +
      std::string(to_string(p.options.reproducible)) +
      "\nthreads: " + std::to_string(p.options.threads ? p.options.threads->num_threads() : 1) +
      "\nenvironment: " + (p.environment.empty() ? "nothing set" : p.environment) + "\n";
  std::int64_t from = 0;
  for (const Bucket& b : p.buckets) {
    text += "m " + std::to_string(from) + " to " + std::to_string(b.m_max) + ": " +
            std::string(b.kernel().name) + " (" + to_string(b.choice.config) + ")\n" +
            describe(b.choice);
    from = b.m_max + 1;
  }
  return text;
}

std::string Plan::explain(std::int64_t m) const {
  const Choice& choice = impl_->bucket(m).choice;
  return "m " + std::to_string(m) + ": " + std::string(choice.kernel->name) + " (" +
         to_string(choice.config) + "), workspace " + std::to_string(workspace_bytes(m)) +
         " bytes\n" + describe(choice);
}

}  // namespace mxgemm
