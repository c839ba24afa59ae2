// A kernel's speed knobs as text: for people, and in tuning tables.
#pragma once

#include <string>
#include <string_view>

#include "mxgemm/status.h"
#include "plan/kernel.h"

namespace mxgemm {

struct ConfigField {
  std::string_view name;
  int Config::*member;
  int unset;  // the value that says nothing, so that text leaves it out
};

inline constexpr ConfigField kConfigFields[] = {
    {"block_m", &Config::block_m, 0},     {"block_n", &Config::block_n, 0},
    {"block_k", &Config::block_k, 0},     {"split_k", &Config::split_k, 1},
    {"stages", &Config::stages, 0},       {"warps", &Config::warps, 0},
    {"group_m", &Config::group_m, 0},     {"cache_policy", &Config::cache_policy, 0},
    {"min_waves", &Config::min_waves, 0},
};

/// One line for people: "block_m 4, block_n 16".
std::string to_string(const Config& config);

/// One word for tables: "block_m=4,block_n=16"; "-" when nothing is set.
std::string config_word(const Config& config);
/// Reads exactly what config_word() writes. Errors: bad_data.
Result<Config> parse_config_word(std::string_view word);

}  // namespace mxgemm
