// From what is asked for to which kernel does it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel.h"

namespace mxgemm {

/// A kernel that was considered: why it cannot do the problem (ok: it can), and its score.
struct Candidate {
  const KernelDesc* kernel = nullptr;
  Status verdict = {};
  int checks_passed = 0;   // how far it got; the one that got furthest tells a caller the most
  Config config = {};      // its best, when it can
  double estimate_us = 0;  // of that config, by the cost model
};

/// What one M is served by, with all kernels' verdicts.
struct Choice {
  const KernelDesc* kernel = nullptr;  // null: none can
  Config config;
  std::vector<Candidate> candidates;
};

/// What serves every M up to m_max (and above the bucket before); `choice` was made for m_max.
struct Bucket {
  std::int64_t m_max = 0;
  Choice choice;

  const KernelDesc& kernel() const noexcept { return *choice.kernel; }
};

/// The kernel with the lowest estimate of those that can do the problem (the earlier one in a tie);
/// `forced` (a registry name) rules out all
/// others.
Choice choose(std::span<const KernelDesc* const> kernels, const Problem& problem,
              const Device& device, std::string_view forced);

/// One line for people: "block_m 4, block_n 16".
std::string to_string(const Config& config);

}  // namespace mxgemm
