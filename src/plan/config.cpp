#include "plan/config.h"

#include <charconv>

namespace mxgemm {
namespace {

std::string join(const Config& config, const char* separator, char assign) {
  std::string text;
  for (const ConfigField& field : kConfigFields) {
    const int value = config.*field.member;
    if (value == field.unset) continue;
    if (!text.empty()) text += separator;
    text += field.name;
    text += assign;
    text += std::to_string(value);
  }
  return text;
}

/// "block_m=4" into config; false when it is no such thing.
bool set_field(Config& config, std::string_view text) noexcept {
  const std::size_t assign = text.find('=');
  if (assign == text.npos) return false;
  for (const ConfigField& field : kConfigFields) {
    if (field.name != text.substr(0, assign)) continue;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + assign + 1, end, config.*field.member);
    return error == std::errc() && stop == end;
  }
  return false;
}

}  // namespace

std::string to_string(const Config& config) {
  return join(config, ", ", ' ');
}

std::string config_word(const Config& config) {
  const std::string text = join(config, ",", '=');
  return text.empty() ? "-" : text;
}

Result<Config> parse_config_word(std::string_view word) {
  Config config;
  bool legal = true;
  for (std::string_view rest = word; legal && word != "-";) {
    const std::size_t comma = rest.find(',');
    legal = set_field(config, rest.substr(0, comma));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  // One spelling for one config: order, repetition and leading zeros are told by comparing.
  if (legal && config_word(config) == word) return config;
  return Status::error(StatusCode::bad_data, "config is '%.60s', must be like block_m=4,block_n=16",
                       std::string(word.substr(0, 60)).c_str());
}

}  // namespace mxgemm
