// Any bytes as a .npy file. What is accepted must say the same after it is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/npy.h"
#include "io/npy_header.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxgemm;
  const auto array = io::parse_npy({data, size}, "fuzz");
  if (!array.is_ok()) {
    MXGEMM_REQUIRE(array.status().code() == StatusCode::bad_data);
    return 0;
  }
  std::uint64_t bytes = static_cast<std::uint64_t>(io::size_of(array->type));
  for (const std::int64_t dim : array->shape) bytes *= static_cast<std::uint64_t>(dim);
  MXGEMM_REQUIRE(bytes == array->data.size());
  const auto again = io::parse_npy_header(io::npy_header(array->type, array->shape), "again");
  MXGEMM_REQUIRE(again.is_ok());
  MXGEMM_REQUIRE(again->type == array->type && again->shape == array->shape);
  return 0;
}
