// From what is asked for to which kernel does it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel.h"

namespace mxgemm {

/// A kernel, and why it was not taken (ok: it was).
struct Candidate {
  const KernelDesc* kernel = nullptr;
  Status verdict;
};

/// The kernel and config that serve every M up to m_max (and above the bucket before).
struct Bucket {
  std::int64_t m_max = 0;
  const KernelDesc* kernel = nullptr;
  Config config;
};

/// What one M is served by, with all kernels' verdicts.
struct Choice {
  const KernelDesc* kernel = nullptr;  // null: none can
  Config config;
  std::vector<Candidate> candidates;
};

/// The first kernel of the list that can do the problem; `forced` (a registry name) rules out all
/// others.
Choice choose(std::span<const KernelDesc* const> kernels, const Problem& problem,
              const Device& device, std::string_view forced);

/// One line for people: "block_m 4, block_n 16".
std::string to_string(const Config& config);

}  // namespace mxgemm
