// Plan::explain: what was chosen at creation, by what, and every kernel's verdict.
#include <charconv>
#include <string>

#include "api/plan_impl.h"
#include "plan/config.h"

namespace mxgemm {
namespace {

/// With one decimal, whatever the locale.
std::string one_decimal(double value) {
  char buffer[400];  // the largest double has 309 digits before the point
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 1);
  return {buffer, error == std::errc() ? end : buffer};
}

std::string microseconds(double us) {
  return one_decimal(us) + " us";
}

std::string with_config(std::string_view kernel, const Config& config) {
  const std::string text = to_string(config);
  return std::string(kernel) + (text.empty() ? "" : " (" + text + ")");
}

/// "row of the built-in table for m <= 16, cpu_avx2 (block_m 4): 12.0 us measured, ...".
std::string describe(const TuningMatch& match) {
  const TuningRow& row = *match.row;
  const Evidence& e = row.evidence;
  std::string text =
      "row of " + std::string(match.table) + " for m <= " + std::to_string(row.m_max) + ", " +
      with_config(row.kernel, row.config) + ": " + microseconds(e.us) + " measured, " +
      one_decimal(100 * e.share_of_floor) + " % of the floor, " + std::to_string(e.threads) +
      (e.threads == 1 ? " thread, " : " threads, ") + std::string(e.date);
  if (!e.command.empty()) text += ", `" + std::string(e.command) + "`";
  return text;
}

std::string describe_source(const Plan::Impl& plan, const Choice& choice) {
  std::string text;
  for (const SkippedRow& skipped : choice.skipped)
    text += "  skipped the " + describe(skipped.match) + "; " +
            std::string(skipped.reason.message()) + "\n";
  if (choice.skipped.size() == kMaxSkippedRows) text += "  and perhaps further rows\n";
  if (choice.tuning.row != nullptr)
    return text + "  chosen by the " + describe(choice.tuning) + "\n";
  return text + "  chosen by the cost model: no " + (choice.skipped.empty() ? "" : "other ") +
         "tuning row for " + plan.tuning_device + "\n";
}

/// All verdicts on one M, a line each: cannot and why, or the estimate; then one a config where a
/// kernel has several.
std::string describe_candidates(const Choice& choice) {
  std::string text;
  for (const Candidate& candidate : choice.candidates) {
    text += "  " + std::string(candidate.kernel->name) + ": ";
    if (!candidate.verdict.is_ok()) {
      text += std::string(candidate.verdict.message()) + '\n';
      continue;
    }
    const bool chosen = candidate.kernel == choice.kernel;
    text += chosen ? "chosen, " : choice.tuning.row == nullptr ? "slower, " : "not chosen, ";
    text += "estimated " + microseconds(candidate.estimate_us) + " on one thread";
    const auto& configs = candidate.kernel->configs;
    if (configs.size() == 1) {
      text += " (" + to_string(candidate.config) + ")\n";
      continue;
    }
    text += '\n';
    for (std::size_t i = 0; i < configs.size(); ++i)
      text += std::string(chosen && configs[i] == choice.config ? "   *" : "    ") + " (" +
              to_string(configs[i]) + "): estimated " + microseconds(candidate.estimates[i]) + "\n";
  }
  return text;
}

/// What the promise costs, by estimates: those of the plan with it and of the one without.
std::string describe_promise(const Plan::Impl& plan, const Bucket& bucket) {
  if (!bucket.without_promise) return {};
  const Choice &with = bucket.choice, &without = *bucket.without_promise;
  std::string text = "  reproducible = " + std::string(to_string(plan.options.reproducible));
  if (with.kernel == without.kernel && with.config == without.config)
    return text + " costs nothing: the same kernel and config would be chosen without it\n";
  return text + ": estimated " + microseconds(with.estimate_us()) + "; without it " +
         microseconds(without.estimate_us()) + " by " +
         with_config(without.kernel->name, without.config) + "\n";
}

std::string describe(const Plan::Impl& plan, const Bucket& bucket) {
  return describe_source(plan, bucket.choice) + describe_promise(plan, bucket) +
         describe_candidates(bucket.choice);
}

/// What holds for every M.
std::string describe_tables(const Plan::Impl& plan) {
  std::string text = "tuning: ";
  for (const TuningSource& source : plan.sources)
    text += (&source == &plan.sources.front() ? "" : ", then ") + std::string(source.name) + " (" +
            std::to_string(source.rows.size()) + (source.rows.size() == 1 ? " row)" : " rows)");
  text += " for this n, k and activation on " + plan.tuning_device;
  if (!plan.warning.empty()) text += "\nwarning: " + plan.warning;
  text += "\nenvironment: " + (plan.environment.empty() ? "nothing set" : plan.environment) + "\n";
  if (!plan.one_path.empty()) text += "one path for every m: " + plan.one_path + "\n";
  return text;
}

}  // namespace

std::string Plan::explain() const {
  const Impl& p = *impl_;
  std::string text = "plan for [m <= " + std::to_string(p.m_max) + ", n " +
                     std::to_string(p.view.n) + ", k " + std::to_string(p.view.k) + "] on " +
                     to_string(p.device) + ", weights in " + std::string(to_string(p.view.layout)) +
                     ", activation " + std::string(to_string(p.options.activation)) +
                     ", reproducible " + std::string(to_string(p.options.reproducible)) +
                     "\nthreads: " + std::to_string(p.num_threads) + "\n" + describe_tables(p);
  std::int64_t from = 0;
  for (const Bucket& b : p.buckets) {
    text += "m " + std::to_string(from) + " to " + std::to_string(b.m_max) + ": " +
            with_config(b.kernel().name, b.choice.config) + "\n" + describe(p, b);
    from = b.m_max + 1;
  }
  return text;
}

std::string Plan::explain(std::int64_t m) const {
  const Bucket& bucket = impl_->bucket(m);
  return "m " + std::to_string(m) + ": " + with_config(bucket.kernel().name, bucket.choice.config) +
         ", workspace " + std::to_string(workspace_bytes(m)) + " bytes\n" +
         describe_tables(*impl_) + describe(*impl_, bucket);
}

}  // namespace mxgemm
