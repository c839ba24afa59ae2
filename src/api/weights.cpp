#include "mxgemm/weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>
#include <utility>

#include "api/check.h"
#include "api/weights_impl.h"
#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/parallel.h"
#include "layout/layouts.h"

namespace mxgemm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Aligned bytes that weights own; huge pages where they pay. Null when there is no memory.
std::shared_ptr<std::uint8_t> allocate(std::int64_t bytes) noexcept {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const std::size_t alignment = size >= kHugePage ? kHugePage : kAlignment;
  void* p = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
  if (p == nullptr) return nullptr;
  if (size >= kHugePage) (void)madvise(p, size, MADV_HUGEPAGE);  // a hint; refusal is harmless
  try {
    return {static_cast<std::uint8_t*>(p),
            [alignment](std::uint8_t* q) { ::operator delete (q, std::align_val_t{alignment}); }};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Status no_memory(std::int64_t bytes) noexcept {
  return Status::error(StatusCode::out_of_memory, "no memory for %" PRId64 " bytes of weights",
                       bytes);
}

Status check_sizes(std::int64_t n, std::int64_t k, std::int64_t num_experts) noexcept {
  constexpr std::int64_t kMax = std::int64_t{1} << 40;
  if (n < 1 || n > kMax)
    return Status::error(StatusCode::invalid_argument, "n is %" PRId64 ", must be 1 to 2^40", n);
  if (k < 1 || k > cpu::kMaxK)
    return Status::error(StatusCode::invalid_argument, "k is %" PRId64 ", must be 1 to 2^40", k);
  if (num_experts < 1 || num_experts > kMax)
    return Status::error(StatusCode::invalid_argument,
                         "num_experts is %" PRId64 ", must be 1 to 2^40", num_experts);
  // 2^56 elements with pads stay well inside 64-bit offsets.
  if (n > (std::int64_t{1} << 56) / k / num_experts)
    return Status::error(StatusCode::invalid_argument,
                         "num_experts * n * k is %" PRId64 " * %" PRId64 " * %" PRId64
                         ", must be at most 2^56",
                         num_experts, n, k);
  return {};
}

Result<LayoutBytes> checked_layout_bytes(Layout layout, std::int64_t n, std::int64_t k) noexcept {
  switch (layout) {
    case Layout::row_major:
      return LayoutBytes{n * codes_per_row_bytes(k), n * scales_per_row(k)};
    case Layout::aiter_16x16:
      return LayoutBytes{
          layout::padded_n(layout, n) * layout::padded_k(layout, k) / 2,
          layout::round_up(n, layout::kAiterScaleRows) * layout::aiter_scale_cols(k)};
    case Layout::gguf_mxfp4:
      if (k % formats::kBlock != 0)
        return Status::error(StatusCode::invalid_argument,
                             "k is %" PRId64 ", must be a multiple of 32 for gguf_mxfp4", k);
      return LayoutBytes{n * (k / formats::kBlock) * layout::kGgufBlockBytes, 0};
    case Layout::cpu_panel16:
      return LayoutBytes{layout::ceil_div(n, layout::kPanelRows) * layout::panel_bytes(k), 0};
  }
  return Status::error(StatusCode::invalid_argument, "layout is %d, not one of Layout",
                       static_cast<int>(layout));
}

/// Weights of a layout without strides of its own, from the caller's bytes.
Result<Weights> from_bytes(Layout layout, std::int64_t n, std::int64_t k,
                           std::span<const std::uint8_t> codes,
                           std::span<const std::uint8_t> scales, const Weights::Options& options) {
  if (Status s = check_sizes(n, k, options.num_experts); !s.is_ok()) return s;
  const Result<LayoutBytes> one = checked_layout_bytes(layout, n, k);
  if (!one.is_ok()) return one.status();
  const std::int64_t codes_bytes = options.num_experts * one->codes_bytes;
  const std::int64_t scales_bytes = options.num_experts * one->scales_bytes;
  const auto check = [&](const char* name, std::span<const std::uint8_t> bytes,
                         std::int64_t need) -> Status {
    if (static_cast<std::int64_t>(bytes.size()) == need) return {};
    return Status::error(StatusCode::invalid_argument,
                         "%s has %zu bytes, must have %" PRId64 " for %" PRId64 " x [%" PRId64
                         ", %" PRId64 "] in %s",
                         name, bytes.size(), need, options.num_experts, n, k,
                         to_string(layout).data());
  };
  if (Status s = check(layout == Layout::gguf_mxfp4 ? "blocks" : "codes", codes, codes_bytes);
      !s.is_ok())
    return s;
  if (Status s = check("scales", scales, scales_bytes); !s.is_ok()) return s;
  try {
    auto impl = std::make_shared<Weights::Impl>();
    impl->view = {.layout = layout,
                  .n = n,
                  .k = k,
                  .codes = codes.data(),
                  .scales = scales.empty() ? nullptr : scales.data()};
    impl->num_experts = options.num_experts;
    impl->expert_codes_bytes = one->codes_bytes;
    impl->expert_scales_bytes = one->scales_bytes;
    impl->scale_rule = options.scale_rule;
    impl->storage = options.keep_alive;
    if (options.keep_alive == nullptr) {
      const std::shared_ptr<std::uint8_t> owned = allocate(codes_bytes + scales_bytes);
      if (owned == nullptr) return no_memory(codes_bytes + scales_bytes);
      std::copy(codes.begin(), codes.end(), owned.get());
      std::copy(scales.begin(), scales.end(), owned.get() + codes_bytes);
      impl->view.codes = owned.get();
      if (!scales.empty()) impl->view.scales = owned.get() + codes_bytes;
      impl->storage = owned;
    }
    return Weights(std::move(impl));
  } catch (const std::bad_alloc&) {
    return no_memory(codes_bytes + scales_bytes);
  }
}

/// Fresh weights of a layout, their bytes not written yet.
struct Fresh {
  std::shared_ptr<Weights::Impl> impl;
  WeightsTarget target;  // of the first expert
};
Result<Fresh> make_fresh(Layout layout, std::int64_t n, std::int64_t k, std::int64_t num_experts,
                         std::string_view scale_rule) {
  const Result<LayoutBytes> one = checked_layout_bytes(layout, n, k);
  if (!one.is_ok()) return one.status();
  const std::int64_t codes_bytes = num_experts * one->codes_bytes;
  const std::int64_t total = codes_bytes + num_experts * one->scales_bytes;
  const std::shared_ptr<std::uint8_t> owned = allocate(total);
  if (owned == nullptr) return no_memory(total);
  try {
    Fresh fresh{std::make_shared<Weights::Impl>(), {}};
    std::uint8_t* scales = one->scales_bytes == 0 ? nullptr : owned.get() + codes_bytes;
    fresh.target = {.layout = layout,
                    .codes = owned.get(),
                    .scales = scales,
                    .codes_stride = codes_per_row_bytes(k),
                    .scales_stride = scales_per_row(k)};
    *fresh.impl = {.view = {.layout = layout,
                            .n = n,
                            .k = k,
                            .codes = owned.get(),
                            .scales = scales,
                            .codes_stride = fresh.target.codes_stride,
                            .scales_stride = fresh.target.scales_stride},
                   .num_experts = num_experts,
                   .expert_codes_bytes = one->codes_bytes,
                   .expert_scales_bytes = one->scales_bytes,
                   .scale_rule = std::string(scale_rule),
                   .storage = owned};
    return fresh;
  } catch (const std::bad_alloc&) {
    return no_memory(total);
  }
}

/// Converts all experts. `target` is where the first one goes, the others follow at these steps.
void repack_experts(const Weights::Impl& w, WeightsTarget target, std::int64_t codes_step,
                    std::int64_t scales_step, ThreadPool* threads) noexcept {
  const std::int64_t stripe = repack_stripe(target.layout);
  const std::int64_t stripes = layout::ceil_div(w.view.n, stripe);
  cpu::parallel_for(threads, stripes * w.num_experts, [&](std::int64_t task) noexcept {
    const std::int64_t e = task / stripes, row = task % stripes * stripe;
    WeightsTarget t = target;
    t.codes += e * codes_step;
    if (t.scales != nullptr) t.scales += e * scales_step;
    repack_rows(w.expert(e), t, row, std::min(w.view.n, row + stripe));
  });
}

}  // namespace

Result<LayoutBytes> layout_bytes(Layout layout, std::int64_t n, std::int64_t k) {
  if (Status s = check_sizes(n, k, 1); !s.is_ok()) return s;
  return checked_layout_bytes(layout, n, k);
}

Weights::Weights(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

Result<Weights> Weights::from_row_major(const Mxfp4View& w) {
  return from_row_major(w, Options());
}

Result<Weights> Weights::from_row_major(const Mxfp4View& w, const Options& options) {
  if (options.num_experts < 1 || w.rows % options.num_experts != 0)
    return Status::error(StatusCode::invalid_argument,
                         "w.rows is %" PRId64 ", must be a multiple of num_experts = %" PRId64,
                         w.rows, options.num_experts);
  const std::int64_t n = w.rows / options.num_experts;
  if (Status s = check_sizes(n, w.cols, options.num_experts); !s.is_ok()) return s;
  if (Status s = check_mxfp4("w", w); !s.is_ok()) return s;
  try {
    auto impl = std::make_shared<Impl>();
    *impl = {.view = {.layout = Layout::row_major,
                      .n = n,
                      .k = w.cols,
                      .codes = w.codes,
                      .scales = w.scales,
                      .codes_stride = w.codes_stride,
                      .scales_stride = w.scales_stride},
             .num_experts = options.num_experts,
             .expert_codes_bytes = n * w.codes_stride,
             .expert_scales_bytes = n * w.scales_stride,
             .scale_rule = std::string(options.scale_rule),
             .storage = options.keep_alive};
    if (options.keep_alive != nullptr) return Weights(std::move(impl));
    Result<Fresh> fresh =
        make_fresh(Layout::row_major, n, w.cols, options.num_experts, options.scale_rule);
    if (!fresh.is_ok()) return fresh.status();
    repack_experts(*impl, fresh->target, fresh->impl->expert_codes_bytes,
                   fresh->impl->expert_scales_bytes, nullptr);
    return Weights(std::move(fresh->impl));
  } catch (const std::bad_alloc&) {
    return no_memory(w.rows * codes_per_row_bytes(w.cols));
  }
}

Result<Weights> Weights::from_aiter(std::int64_t n, std::int64_t k,
                                    std::span<const std::uint8_t> codes,
                                    std::span<const std::uint8_t> scales, const Options& options) {
  return from_bytes(Layout::aiter_16x16, n, k, codes, scales, options);
}

Result<Weights> Weights::from_gguf(std::int64_t n, std::int64_t k,
                                   std::span<const std::uint8_t> blocks, const Options& options) {
  return from_bytes(Layout::gguf_mxfp4, n, k, blocks, {}, options);
}

Result<Weights> Weights::quantize(const ConstMatrix& w, const QuantizeOptions& options,
                                  std::int64_t num_experts) {
  if (num_experts < 1 || w.rows % num_experts != 0)
    return Status::error(StatusCode::invalid_argument,
                         "w.rows is %" PRId64 ", must be a multiple of num_experts = %" PRId64,
                         w.rows, num_experts);
  const std::int64_t n = w.rows / num_experts;
  if (Status s = check_matrix("w", w); !s.is_ok()) return s;
  if (Status s = check_sizes(n, w.cols, num_experts); !s.is_ok()) return s;
  if (Status s = check_rule(options.rule, options.non_finite); !s.is_ok()) return s;
  Result<Fresh> fresh =
      make_fresh(Layout::row_major, n, w.cols, num_experts, to_string(options.rule));
  if (!fresh.is_ok()) return fresh.status();
  const WeightsTarget& t = fresh->target;
  const Mxfp4Buffer out = mxfp4_buffer(t.codes, t.scales, w.rows, w.cols);
  if (Status s = mxgemm::quantize(w, out, options); !s.is_ok()) return s;
  return Weights(std::move(fresh->impl));
}

Result<Weights> Weights::pack(const Device& device, ThreadPool* threads) const {
  if (device.kind != DeviceKind::cpu)
    return Status::error(StatusCode::unsupported, "device is %s, this build has the cpu only",
                         to_string(device).c_str());
  return to_layout(Layout::cpu_panel16, threads);
}

Result<Weights> Weights::to_layout(Layout layout, ThreadPool* threads) const {
  // Layouts with the caller's own strides or pads are written anew.
  const bool as_packed = layout == Layout::gguf_mxfp4 || layout == Layout::cpu_panel16;
  if (layout == impl_->view.layout && as_packed) return *this;
  Result<Fresh> fresh =
      make_fresh(layout, impl_->view.n, impl_->view.k, impl_->num_experts, impl_->scale_rule);
  if (!fresh.is_ok()) return fresh.status();
  repack_experts(*impl_, fresh->target, fresh->impl->expert_codes_bytes,
                 fresh->impl->expert_scales_bytes, threads);
  return Weights(std::move(fresh->impl));
}

Result<Weights> Weights::slice(std::int64_t expert) const {
  if (expert < 0 || expert >= impl_->num_experts)
    return Status::error(StatusCode::invalid_argument,
                         "expert is %" PRId64 ", must be 0 to %" PRId64, expert,
                         impl_->num_experts - 1);
  try {
    auto impl = std::make_shared<Impl>(*impl_);
    impl->view = impl_->expert(expert);
    impl->num_experts = 1;
    return Weights(std::move(impl));
  } catch (const std::bad_alloc&) {
    return no_memory(static_cast<std::int64_t>(sizeof(Impl)));
  }
}

Status Weights::copy_row_major(const Mxfp4Buffer& out, ThreadPool* threads) const noexcept {
  if (Status s = check_mxfp4("out", out); !s.is_ok()) return s;
  const std::int64_t rows = impl_->num_experts * impl_->view.n;
  if (out.rows != rows || out.cols != impl_->view.k)
    return Status::error(StatusCode::invalid_argument,
                         "out is [%" PRId64 ", %" PRId64 "], must be [%" PRId64 ", %" PRId64 "]",
                         out.rows, out.cols, rows, impl_->view.k);
  const WeightsTarget target{.layout = Layout::row_major,
                             .codes = out.codes,
                             .scales = out.scales,
                             .codes_stride = out.codes_stride,
                             .scales_stride = out.scales_stride};
  repack_experts(*impl_, target, impl_->view.n * out.codes_stride,
                 impl_->view.n * out.scales_stride, threads);
  return {};
}

std::int64_t Weights::num_experts() const noexcept {
  return impl_->num_experts;
}
std::int64_t Weights::n() const noexcept {
  return impl_->view.n;
}
std::int64_t Weights::k() const noexcept {
  return impl_->view.k;
}
std::int64_t Weights::padded_n() const noexcept {
  return layout::padded_n(impl_->view.layout, impl_->view.n);
}
std::int64_t Weights::padded_k() const noexcept {
  return impl_->view.padded_k();
}
Layout Weights::layout() const noexcept {
  return impl_->view.layout;
}
std::string_view Weights::scale_rule() const noexcept {
  return impl_->scale_rule;
}

std::int64_t Weights::bytes() const noexcept {
  const LayoutBytes one = *checked_layout_bytes(impl_->view.layout, n(), k());
  return num_experts() * (one.codes_bytes + one.scales_bytes);
}

std::span<const std::uint8_t> Weights::codes() const noexcept {
  const LayoutBytes one = *checked_layout_bytes(impl_->view.layout, n(), k());
  if (num_experts() > 1 && impl_->expert_codes_bytes != one.codes_bytes) return {};
  if (layout() == Layout::row_major && impl_->view.codes_stride != codes_per_row_bytes(k()))
    return {};
  return {impl_->view.codes, static_cast<std::size_t>(num_experts() * one.codes_bytes)};
}

std::span<const std::uint8_t> Weights::scales() const noexcept {
  const LayoutBytes one = *checked_layout_bytes(impl_->view.layout, n(), k());
  if (one.scales_bytes == 0) return {};
  if (num_experts() > 1 && impl_->expert_scales_bytes != one.scales_bytes) return {};
  if (layout() == Layout::row_major && impl_->view.scales_stride != scales_per_row(k())) return {};
  return {impl_->view.scales, static_cast<std::size_t>(num_experts() * one.scales_bytes)};
}

}  // namespace mxgemm
