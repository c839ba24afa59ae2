// Measured choices: which kernel and config is fastest for a shape on a device. Rows come with the
// library (tuning_cpu.inc) and from tables that `mxgemm tune` writes (tuning_text.h). A row only
// ever picks among kernels that check_support() lets through.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel.h"

namespace mxgemm {

/// What a row was measured with. `us`: the median of runs whose weights came from memory.
struct Evidence {
  int threads = 0;
  double us = 0;
  double share_of_floor = 0;      // time to only read the weights, over us
  std::string_view date = {};     // "2026-12-31"
  std::string_view command = {};  // that measures it again
};

/// For `device` and [n, k] exactly, and every M up to m_max that no row of a smaller m_max serves.
/// The number of threads is evidence, not a key: it must not decide which kernel computes a result.
/// Rows may share all that and differ in kernel: a slower one may keep a stronger promise.
struct TuningRow {
  std::string_view device;  // Tuning::device(): "cpu-amd-25-17-avx512vnni"
  Activation activation = Activation::mxfp4;
  std::int64_t m_max = 0, n = 0, k = 0;
  std::string_view kernel;
  Config config = {};
  Evidence evidence = {};

  /// Whether both were measured for the same thing.
  bool same_case(const TuningRow& other) const noexcept {
    return device == other.device && activation == other.activation && m_max == other.m_max &&
           n == other.n && k == other.k;
  }
};

/// The rows that come with the library.
std::span<const TuningRow> built_in_tuning() noexcept;

/// The rows of one table that may serve some M of a plan, in the order in which they are tried:
/// rising m_max, then the fastest first.
struct TuningSource {
  std::string_view name;  // where they are from, in words
  std::vector<const TuningRow*> rows = {};
};

/// Where a plan looks: the strongest table first.
using TuningSources = std::vector<TuningSource>;

/// The rows for `device`, [n, k] and `activation`. They stay where they are.
TuningSource tuning_source(std::string_view name, std::span<const TuningRow> rows,
                           std::string_view device, const Problem& problem);

}  // namespace mxgemm
