// Shared helpers of the tests: seeded data, poisoned buffers, one-line plans.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "formats/mxfp4.h"
#include "mxgemm/mxgemm.h"
#include "plan/kernel.h"

namespace mxgemm::testing {

#define ASSERT_OK(expr)                                                             \
  do {                                                                              \
    const ::mxgemm::Status assert_ok_status = ::mxgemm::testing::status_of((expr)); \
    ASSERT_TRUE(assert_ok_status.is_ok()) << assert_ok_status.message();            \
  } while (false)
#define EXPECT_OK(expr)                                                             \
  do {                                                                              \
    const ::mxgemm::Status expect_ok_status = ::mxgemm::testing::status_of((expr)); \
    EXPECT_TRUE(expect_ok_status.is_ok()) << expect_ok_status.message();            \
  } while (false)
/// The call fails with this code and its sentence contains `text`.
#define EXPECT_ERROR(expr, expected, text)                                              \
  do {                                                                                  \
    const ::mxgemm::Status expect_error_status = ::mxgemm::testing::status_of((expr));  \
    EXPECT_EQ(expect_error_status.code(), (expected)) << expect_error_status.message(); \
    EXPECT_NE(std::string(expect_error_status.message()).find(text), std::string::npos) \
        << expect_error_status.message();                                               \
  } while (false)

inline Status status_of(const Status& status) {
  return status;
}
template <class T>
Status status_of(const Result<T>& result) {
  return result.status();
}

/// std::mt19937 with 32-bit results: the standard one's are 64 bits wide here.
class Rng {
 public:
  using result_type = std::uint32_t;
  explicit Rng(unsigned seed) : engine_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFu; }
  result_type operator()() { return static_cast<result_type>(engine_()); }

 private:
  std::mt19937 engine_;
};

inline std::uint8_t random_byte(Rng& rng) {
  return static_cast<std::uint8_t>(rng() & 255u);
}

inline std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed) {
  Rng rng(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& b : bytes) b = random_byte(rng);
  return bytes;
}

/// bf16 values of a normal distribution.
inline std::vector<std::uint16_t> random_bf16(std::size_t count, unsigned seed) {
  Rng rng(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& v : values) v = formats::float_to_bf16(normal(rng));
  return values;
}

inline MatrixView<const bf16> bf16_view(const std::vector<std::uint16_t>& v, std::int64_t rows,
                                        std::int64_t cols, std::int64_t stride = 0) {
  return {reinterpret_cast<const bf16*>(v.data()), rows, cols, stride == 0 ? cols : stride};
}

/// Codes and scales of a row_major MXFP4 matrix, with their view.
struct HostMxfp4 {
  std::int64_t rows, cols;
  std::vector<std::uint8_t> codes, scales;

  HostMxfp4(std::int64_t r, std::int64_t c)
      : rows(r),
        cols(c),
        codes(static_cast<std::size_t>(r * codes_per_row_bytes(c))),
        scales(static_cast<std::size_t>(r * scales_per_row(c)), 127) {}
  Mxfp4View view() const { return mxfp4_view(codes.data(), scales.data(), rows, cols); }
  Mxfp4Buffer buffer() { return mxfp4_buffer(codes.data(), scales.data(), rows, cols); }
  unsigned code(std::int64_t r, std::int64_t c) const {
    const std::uint8_t byte =
        codes[static_cast<std::size_t>(r * codes_per_row_bytes(cols) + c / 2)];
    return (c % 2 != 0) ? byte >> 4 : byte & 15u;
  }
  void set_code(std::int64_t r, std::int64_t c, unsigned code) {
    std::uint8_t& byte = codes[static_cast<std::size_t>(r * codes_per_row_bytes(cols) + c / 2)];
    const int shift = c % 2 != 0 ? 4 : 0;
    byte = static_cast<std::uint8_t>((byte & ~(15u << shift)) | (code << shift));
  }
  std::uint8_t& scale(std::int64_t r, std::int64_t b) {
    return scales[static_cast<std::size_t>(r * scales_per_row(cols) + b)];
  }
  std::uint8_t scale(std::int64_t r, std::int64_t b) const {
    return scales[static_cast<std::size_t>(r * scales_per_row(cols) + b)];
  }
};

/// Random codes; scale bytes drawn from `scale_choices`.
inline HostMxfp4 random_mxfp4(std::int64_t rows, std::int64_t cols, unsigned seed,
                              const std::vector<int>& scale_choices) {
  HostMxfp4 m(rows, cols);
  Rng rng(seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) m.set_code(r, c, rng() & 15u);
    for (std::int64_t b = 0; b < scales_per_row(cols); ++b)
      m.scale(r, b) = static_cast<std::uint8_t>(scale_choices[rng() % scale_choices.size()]);
  }
  return m;
}

inline const KernelDesc& kernel_named(std::string_view name) {
  for (const KernelDesc* kernel : registry())
    if (kernel->name == name) return *kernel;
  ADD_FAILURE() << "no kernel " << name;
  return *registry().back();
}

/// Kernels of the registry that this machine runs on some layout, with `activation`.
inline std::vector<const KernelDesc*> runnable_kernels(Activation activation) {
  std::vector<const KernelDesc*> kernels;
  for (const KernelDesc* kernel : registry())
    if (kernel->device == DeviceKind::cpu && kernel->promise(activation) &&
        kernel
            ->supports({.shape = {1, 16, 128},
                        .layout = kernel->layouts.front(),
                        .activation = activation},
                       Device::cpu())
            .is_ok())
      kernels.push_back(kernel);
  return kernels;
}

}  // namespace mxgemm::testing
