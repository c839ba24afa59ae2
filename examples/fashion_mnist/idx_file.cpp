#include "idx_file.h"

#include <zlib.h>

#include <memory>
#include <stdexcept>

IdxArray read_idx(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) {
    throw std::runtime_error(path + " cannot be opened (Debian package dataset-fashion-mnist)");
  }
  std::vector<std::uint8_t> bytes(64u << 20);  // the largest is 47 MB
  const int size = gzread(file.get(), bytes.data(), static_cast<unsigned>(bytes.size()));
  if (size < 4 || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8) {
    throw std::runtime_error(path + " is not an IDX file of bytes");
  }

  IdxArray array;
  const std::size_t rank = bytes[3], header = 4 + 4 * rank;
  std::size_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint8_t* p = &bytes[4 + 4 * i];
    const std::uint32_t dim = (std::uint32_t{p[0]} << 24) | (std::uint32_t{p[1]} << 16) |
                              (std::uint32_t{p[2]} << 8) | std::uint32_t{p[3]};
    array.shape.push_back(dim);
    count *= dim;
  }
  if (static_cast<std::size_t>(size) != header + count) {
    throw std::runtime_error(path + " has not the size that its header tells");
  }
  array.data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header),
                    bytes.begin() + static_cast<std::ptrdiff_t>(header + count));
  return array;
}
