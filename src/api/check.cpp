#include "api/check.h"

#include <cinttypes>

namespace mxgemm {
namespace {

// Sizes stay far enough below 2^63 that sums and byte counts of them cannot overflow.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 48;

Status check_extent(const char* name, const char* field, std::int64_t value) noexcept {
  if (value >= 0 && value <= kMaxExtent) return {};
  return Status::error(StatusCode::invalid_argument, "%s.%s is %" PRId64 ", must be 0 to 2^48",
                       name, field, value);
}

Status check_strided(const char* name, const char* stride_name, std::int64_t stride,
                     std::int64_t row, std::int64_t rows) noexcept {
  if (stride < row || stride > kMaxExtent)
    return Status::error(StatusCode::invalid_argument,
                         "%s.%s is %" PRId64 ", must be at least a row's %" PRId64
                         " and at most 2^48",
                         name, stride_name, stride, row);
  if (rows > 0 && stride > (std::int64_t{1} << 58) / rows)
    return Status::error(StatusCode::invalid_argument,
                         "%s of %" PRId64 " rows with %s %" PRId64 " exceeds 2^58 elements", name,
                         rows, stride_name, stride);
  return {};
}

}  // namespace

Status check_matrix(const char* name, const void* data, DType dtype, std::int64_t rows,
                    std::int64_t cols, std::int64_t row_stride) noexcept {
  if (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::f32)
    return Status::error(StatusCode::invalid_argument, "%s.dtype is %d, must be bf16, f16 or f32",
                         name, static_cast<int>(dtype));
  if (Status s = check_extent(name, "rows", rows); !s.is_ok()) return s;
  if (Status s = check_extent(name, "cols", cols); !s.is_ok()) return s;
  if (rows == 0 || cols == 0) return {};
  if (data == nullptr)
    return Status::error(StatusCode::invalid_argument,
                         "%s.data is null, must point to %" PRId64 " x %" PRId64 " elements", name,
                         rows, cols);
  return check_strided(name, "row_stride", row_stride, cols, rows);
}

Status check_mxfp4(const char* name, const Mxfp4View& m) noexcept {
  if (Status s = check_extent(name, "rows", m.rows); !s.is_ok()) return s;
  if (Status s = check_extent(name, "cols", m.cols); !s.is_ok()) return s;
  if (m.rows == 0 || m.cols == 0) return {};
  if (m.codes == nullptr || m.scales == nullptr)
    return Status::error(StatusCode::invalid_argument,
                         "%s.%s is null, must point to %" PRId64 " rows", name,
                         m.codes == nullptr ? "codes" : "scales", m.rows);
  if (Status s =
          check_strided(name, "codes_stride", m.codes_stride, codes_per_row_bytes(m.cols), m.rows);
      !s.is_ok())
    return s;
  return check_strided(name, "scales_stride", m.scales_stride, scales_per_row(m.cols), m.rows);
}

Status check_output(const Matrix& c, const Epilogue& epilogue, std::int64_t n) noexcept {
  if (Status s = check_matrix("c", c); !s.is_ok()) return s;
  if (c.dtype == DType::f16)
    return Status::error(StatusCode::invalid_argument, "c.dtype is f16, must be bf16 or f32");
  if (c.cols != n)
    return Status::error(StatusCode::invalid_argument,
                         "c.cols is %" PRId64 ", must be n = %" PRId64, c.cols, n);
  const auto num_bias = static_cast<std::int64_t>(epilogue.bias.size());
  if (num_bias != 0 && num_bias != n)
    return Status::error(StatusCode::invalid_argument,
                         "bias has %" PRId64 " values, must have n = %" PRId64 " or none", num_bias,
                         n);
  return {};
}

Status check_rule(ScaleRule rule, NonFinite policy) noexcept {
  if (rule < ScaleRule::even || rule > ScaleRule::ceil)
    return Status::error(StatusCode::invalid_argument,
                         "scale rule is %d, must be even, floor, rceil or ceil",
                         static_cast<int>(rule));
  if (policy != NonFinite::propagate && policy != NonFinite::saturate)
    return Status::error(StatusCode::invalid_argument,
                         "non_finite is %d, must be propagate or saturate",
                         static_cast<int>(policy));
  return {};
}

bool overlaps(const StridedBytes& a, const StridedBytes& b) noexcept {
  if (a.rows == 0 || a.row_bytes == 0 || b.rows == 0 || b.row_bytes == 0) return false;
  const auto extent = [](const StridedBytes& m) {
    return static_cast<std::uintptr_t>((m.rows - 1) * m.stride + m.row_bytes);
  };
  const auto a0 = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b0 = reinterpret_cast<std::uintptr_t>(b.data);
  if (a0 + extent(a) <= b0 || b0 + extent(b) <= a0) return false;
  if (a.stride != b.stride || a.rows == 1 || b.rows == 1) return true;
  // The same stride: apart when, modulo the stride, the columns are.
  const auto stride = static_cast<std::uintptr_t>(a.stride);
  const std::uintptr_t offset =
      b0 >= a0 ? (b0 - a0) % stride : (stride - (a0 - b0) % stride) % stride;
  return offset < static_cast<std::uintptr_t>(a.row_bytes) ||
         offset + static_cast<std::uintptr_t>(b.row_bytes) > stride;
}

}  // namespace mxgemm
