#include "bench_report.h"

#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "roof.h"
#include "terminal.h"

namespace mxgemm::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Warm or cold: where a contestant and a shape keep their figures of it.
struct Kind {
  const char* name;
  Timing Contestant::*timing;
  Timing ShapeTiming::*floor;
};
constexpr Kind kKinds[] = {{"warm", &Contestant::warm, &ShapeTiming::floor_warm},
                           {"cold", &Contestant::cold, &ShapeTiming::floor_cold}};

double gigabytes(std::int64_t bytes, double us) {
  return static_cast<double>(bytes) / (us * 1e3);
}

const Contestant* find(const std::vector<Contestant>& list, const std::string& name) {
  for (const Contestant& contestant : list) {
    if (contestant.name == name && contestant.measured()) return &contestant;
  }
  return nullptr;
}

Json outcome(const Contestant& contestant, const ShapeTiming& shape) {
  Json row = Json::object();
  if (!contestant.skipped.empty()) {
    row["skipped"] = contestant.skipped;
  } else if (!contestant.mismatch.empty()) {
    row["mismatch"] = contestant.mismatch;
  } else {
    row["runs"] = contestant.runs;
    for (const Kind& kind : kKinds) {
      const Timing& timing = contestant.*kind.timing;
      row[kind.name] = {
          {"median_us", timing.median_us},
          {"min_us", timing.min_us},
          {"weights_gb_s", json_number(gigabytes(contestant.weight_bytes, timing.median_us))},
          {"gops", json_number(shape.operations() / (timing.median_us * 1e3))}};
    }
  }
  return row;
}

Json kernel_json(const Contestant& kernel, const ShapeTiming& shape, const ShapeTiming& first) {
  Json row = {{"kernel", kernel.name}};
  row.update(outcome(kernel, shape));
  if (!kernel.measured()) return row;
  for (const Kind& kind : kKinds) {
    const double us = (kernel.*kind.timing).median_us;
    Json& figures = row[kind.name];
    figures["share_of_floor"] = json_number((shape.*kind.floor).median_us / us);
    figures["share_of_roof"] = json_number(shape.roof_us(shape.*kind.floor) / us);
    for (const Contestant& baseline : shape.baselines) {
      if (!baseline.measured()) continue;
      figures["speedup"][baseline.name] = json_number((baseline.*kind.timing).median_us / us);
    }
    if (const Contestant* one = find(first.kernels, kernel.name); one != nullptr) {
      figures["scaling"] = json_number((one->*kind.timing).median_us / us);
    }
  }
  return row;
}

void print_contestant(const Contestant& contestant, const ShapeTiming& shape,
                      const ShapeTiming& first, bool is_kernel) {
  const std::string name =
      contestant.name + (contestant.description.empty() ? "" : " (" + contestant.description + ")");
  if (!contestant.skipped.empty()) {
    fmt::print("  {}: skipped, {}\n", name, contestant.skipped);
    return;
  }
  if (!contestant.mismatch.empty()) {
    fmt::print("  {}: MISMATCH, {}\n", name, contestant.mismatch);
    return;
  }
  fmt::print("  {}, {} runs\n", name, contestant.runs);
  for (const Kind& kind : kKinds) {
    const Timing& timing = contestant.*kind.timing;
    const double us = timing.median_us;
    fmt::print("    {}  median {:>10.1f} us  min {:>10.1f} us  {:>7.2f} GB/s  {:>8.1f} GOPS",
               kind.name, us, timing.min_us, gigabytes(contestant.weight_bytes, us),
               shape.operations() / (us * 1e3));
    if (is_kernel) {
      const Timing& floor = shape.*kind.floor;
      fmt::print("  {:>5.1f} % of floor  {:>5.1f} % of roof", 100 * floor.median_us / us,
                 100 * shape.roof_us(floor) / us);
      for (const Contestant& baseline : shape.baselines) {
        if (!baseline.measured()) continue;
        fmt::print("  {:.2f}x {}", (baseline.*kind.timing).median_us / us, baseline.name);
      }
    }
    const Contestant* one = find(is_kernel ? first.kernels : first.baselines, contestant.name);
    if (one != nullptr && &first != &shape) {
      fmt::print("  {:.2f}x {} thread{}", (one->*kind.timing).median_us / us, first.num_threads,
                 first.num_threads == 1 ? "" : "s");
    }
    fmt::print("\n");
  }
}

}  // namespace

Json to_json(const ShapeTiming& timing, const ShapeTiming& first) {
  Json document = {{"m", timing.shape.m},
                   {"n", timing.shape.n},
                   {"k", timing.shape.k},
                   {"label", timing.label},
                   {"scales", timing.scales},
                   {"threads", timing.num_threads},
                   {"weight_bytes", timing.weight_bytes},
                   {"copies", timing.num_copies},
                   {"checked", {timing.checked_rows, timing.checked_cols}},
                   {"floor_warm_us", timing.floor_warm.median_us},
                   {"floor_cold_us", timing.floor_cold.median_us},
                   {"peak_gops", timing.peak_gops},
                   {"compute_us", timing.compute_us()},
                   {"kernels", Json::array()},
                   {"baselines", Json::array()}};
  for (const Contestant& kernel : timing.kernels) {
    document["kernels"].push_back(kernel_json(kernel, timing, first));
  }
  for (const Contestant& baseline : timing.baselines) {
    Json row = {{"baseline", baseline.name}, {"description", baseline.description}};
    row.update(outcome(baseline, timing));
    document["baselines"].push_back(std::move(row));
  }
  return document;
}

void print_timing(const ShapeTiming& timing, const ShapeTiming& first) {
  const auto [m, n, k] = timing.shape;
  fmt::print("M={} N={} K={} ({}, {}), {} thread{}; {} copies, {} x {} of C checked\n", m, n, k,
             timing.label, timing.scales, timing.num_threads, timing.num_threads == 1 ? "" : "s",
             timing.num_copies, timing.checked_rows, timing.checked_cols);
  fmt::print(
      "  floor: {} of weights read in {:.1f} us warm ({:.2f} GB/s), {:.1f} us cold ({:.2f} GB/s)",
      bytes_string(static_cast<double>(timing.weight_bytes)), timing.floor_warm.median_us,
      gigabytes(timing.weight_bytes, timing.floor_warm.median_us), timing.floor_cold.median_us,
      gigabytes(timing.weight_bytes, timing.floor_cold.median_us));
  if (timing.peak_gops > 0) {
    fmt::print("; multiplied in {:.1f} us ({}, {:.0f} GOPS)", timing.compute_us(),
               peak_instruction(), timing.peak_gops);
  }
  fmt::print("\n");
  for (const Contestant& kernel : timing.kernels) print_contestant(kernel, timing, first, true);
  for (const Contestant& other : timing.baselines) print_contestant(other, timing, first, false);
  std::fflush(stdout);
}

}  // namespace mxgemm::cli
