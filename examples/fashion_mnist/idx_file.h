// The MNIST family's files: gzipped IDX arrays of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data;
};

/// Throws std::runtime_error that names the file and what is wrong with it.
IdxArray read_idx(const std::string& path);
