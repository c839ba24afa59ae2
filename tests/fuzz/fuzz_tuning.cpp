// Any bytes as a tuning table, alone and as the lines of one whose end is right: the hash there
// would keep the fuzzer out. What is accepted must say the same after it is written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/tuning_text.h"
#include "require.h"

namespace {

using namespace mxgemm;

constexpr std::string_view kBuild = "fuzz";

void check(std::string_view text) {
  const auto rows = parse_tuning(text, kBuild, registry());
  if (!rows.is_ok()) {
    MXGEMM_REQUIRE(rows.status().code() == StatusCode::bad_data ||
                   rows.status().code() == StatusCode::unsupported);
    return;
  }
  for (const TuningRow& row : *rows) {
    const KernelDesc* kernel = find_kernel(row.kernel);
    MXGEMM_REQUIRE(kernel != nullptr && kernel->promise(row.activation));
    const auto& configs = kernel->configs;
    MXGEMM_REQUIRE(std::find(configs.begin(), configs.end(), row.config) != configs.end());
    MXGEMM_REQUIRE(row.m_max > 0 && row.n > 0 && row.k > 0 && row.evidence.us >= 0);
  }
  const std::string again = tuning_text(*rows, kBuild);
  if (again.size() > kMaxTuningBytes) return;  // "1" became "1.00"
  const auto same = parse_tuning(again, kBuild, registry());
  MXGEMM_REQUIRE(same.is_ok() && same->size() == rows->size());
  MXGEMM_REQUIRE(tuning_text(*same, kBuild) == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check(input);
  std::string lines = "mxgemm-tuning 1\nbuild fuzz\n" + std::string(input);
  const std::size_t num_rows =
      static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')) - 2;
  check(lines + tuning_end_line(lines, num_rows));
  return 0;
}
