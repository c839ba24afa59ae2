// The shapes that are measured: those of the system this project re-creates, and those of today's
// language models.
#pragma once

#include <string_view>

#include "mxgemm/tensor.h"

namespace mxgemm::cli {

struct NamedShape {
  std::string_view set;
  Shape shape;
};

inline constexpr NamedShape kShapes[] = {
    {"original", {4, 2880, 512}},  {"original", {16, 2112, 7168}}, {"original", {32, 4096, 512}},
    {"original", {32, 2880, 512}}, {"original", {64, 7168, 2048}}, {"original", {256, 3072, 1536}},
    {"llm", {1, 4096, 4096}},      {"llm", {16, 4096, 4096}},      {"llm", {64, 4096, 4096}},
    {"llm", {256, 4096, 4096}},    {"llm", {1, 5760, 2880}},       {"llm", {64, 5760, 2880}},
    {"llm", {4096, 4096, 4096}},
};

}  // namespace mxgemm::cli
