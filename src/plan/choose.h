// From what is asked for to which kernel does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/config.h"
#include "plan/kernel.h"
#include "plan/tuning.h"

namespace mxgemm {

/// A kernel that was considered: why it cannot do the problem (ok: it can), and its scores.
struct Candidate {
  const KernelDesc* kernel = nullptr;
  Status verdict = {};
  int checks_passed = 0;   // how far it got; the one that got furthest tells a caller the most
  Config config = {};      // its best, when it can: a tuning row's, else the cost model's
  double estimate_us = 0;  // of that config, by the cost model
  std::vector<double> estimates = {};  // of all its configs, in their order
};

/// A tuning row that applies, and the table it is from.
struct TuningMatch {
  const TuningRow* row = nullptr;  // null: the cost model chose
  std::string_view table;
};

/// A row that would have been taken, and why it was not.
struct SkippedRow {
  TuningMatch match;
  Status reason;
};

inline constexpr std::size_t kMaxSkippedRows = 8;  // kept in a choice; more would tell no more

/// What one M is served by, with all kernels' verdicts.
struct Choice {
  const KernelDesc* kernel = nullptr;  // null: none can
  Config config;
  TuningMatch tuning;
  std::vector<SkippedRow> skipped;
  std::vector<Candidate> candidates;

  /// Of the kernel and config chosen, by the cost model.
  double estimate_us() const noexcept;
};

/// Rules out all kernels but `name`, because of `reason` ("is asked for"). Empty: rules out none.
struct OnlyKernel {
  std::string_view name = {};
  std::string_view reason = "is asked for";
};

/// What serves every M up to m_max (and above the bucket before); `choice` was made for m_max.
struct Bucket {
  std::int64_t m_max = 0;
  Choice choice;
  // The choice had the plan asked for no promise beyond `run`; empty when it did not.
  std::optional<Choice> without_promise = {};

  const KernelDesc& kernel() const noexcept { return *choice.kernel; }
  /// Whether the next bucket would say the same.
  bool same_choice(const Bucket& next) const noexcept {
    return choice.kernel == next.choice.kernel && choice.config == next.choice.config &&
           choice.tuning.row == next.choice.tuning.row;
  }
};

/// Of the kernels that can do the problem: the one a tuning row names (of the strongest table that
/// has one: the smallest m_max, then the fastest), else the one with the lowest estimate (the
/// earlier one in a tie).
Choice choose(std::span<const KernelDesc* const> kernels, const Problem& problem,
              const Device& device, const OnlyKernel& only = {}, const TuningSources& tuning = {});

}  // namespace mxgemm
