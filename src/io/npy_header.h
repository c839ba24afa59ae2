// The text at the head of a .npy file: a Python dict literal with exactly three keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/npy.h"

namespace mxgemm::io {

struct NpyHeader {
  NpyType type = NpyType::f4;
  std::vector<std::int64_t> shape;
};

/// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }". Errors: bad_data.
Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& file);

std::string npy_header(NpyType type, std::span<const std::int64_t> shape);

}  // namespace mxgemm::io
