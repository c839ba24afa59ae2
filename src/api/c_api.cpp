#include "mxgemm/c_api.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "api/combine.h"
#include "backend/cpu/ordered_sum.h"
#include "mxgemm/mxgemm.h"
#include "plan/kernel.h"

using namespace mxgemm;  // NOLINT(google-build-using-namespace): every name here wraps one of it

struct mxgemm_weights {
  Weights weights;
};
struct mxgemm_plan {
  Plan plan;
};
struct mxgemm_tuning {
  Tuning tuning;
};
struct mxgemm_thread_pool {
  std::unique_ptr<ThreadPool> pool;
};

namespace {

thread_local Status last_error;

mxgemm_status finish(const Status& status) noexcept {
  if (!status.is_ok()) last_error = status;
  return static_cast<mxgemm_status>(status.code());
}

Status null_argument(const char* name) noexcept {
  return Status::error(StatusCode::invalid_argument, "%s is NULL, must be set", name);
}

/// Runs a call that may allocate and turns what C cannot see into a status.
template <class Body>
mxgemm_status guarded(const Body& body) noexcept {
  try {
    return finish(body());
  } catch (const std::bad_alloc&) {
    return finish(Status::error(StatusCode::out_of_memory, "no memory"));
  } catch (...) {
    return finish(Status::error(StatusCode::unsupported, "unexpected failure"));
  }
}

/// The caller's struct; `out` keeps its defaults where it is NULL. A newer caller's may be longer,
/// if what this library does not know is zero.
template <class T>
Status read_options(const char* name, const T* options, T& out) noexcept {
  if (options == nullptr) return {};
  const std::size_t size = options->struct_size;
  if (size < sizeof out || size > 4096)
    return Status::error(StatusCode::invalid_argument,
                         "%s.struct_size is %zu, must be sizeof the struct, %zu (use its _INIT)",
                         name, size, sizeof out);
  const auto* bytes = reinterpret_cast<const unsigned char*>(options);
  for (std::size_t i = sizeof out; i < size; ++i)
    if (bytes[i] != 0)
      return Status::error(StatusCode::unsupported,
                           "%s sets byte %zu, a field that this version of mxgemm does not have",
                           name, i);
  std::memcpy(&out, options, sizeof out);
  return {};
}

ConstMatrix view(const mxgemm_const_matrix& m) noexcept {
  return {m.data, static_cast<DType>(m.dtype), m.rows, m.cols, m.row_stride};
}
Matrix view(const mxgemm_matrix& m) noexcept {
  return {m.data, static_cast<DType>(m.dtype), m.rows, m.cols, m.row_stride};
}
Mxfp4View view(const mxgemm_mxfp4_view& v) noexcept {
  return {v.codes, v.scales, v.rows, v.cols, v.codes_stride, v.scales_stride};
}
Mxfp4Buffer view(const mxgemm_mxfp4_buffer& b) noexcept {
  return {b.codes, b.scales, b.rows, b.cols, b.codes_stride, b.scales_stride};
}
Device device_of(mxgemm_device_kind kind, std::int32_t index) noexcept {
  return {static_cast<DeviceKind>(kind), index};
}
ThreadPool* pool_of(mxgemm_thread_pool* pool) noexcept {
  return pool == nullptr ? nullptr : pool->pool.get();
}
PartialRange range_of(const mxgemm_partial_range& r) noexcept {
  return {r.k_begin, r.k_end, r.first_span};
}
std::span<std::byte> bytes_of(void* p, std::size_t size) noexcept {
  return {static_cast<std::byte*>(p), p == nullptr ? 0 : size};
}

Status read_quantize_options(const mxgemm_quantize_options* options,
                             QuantizeOptions& out) noexcept {
  mxgemm_quantize_options o = MXGEMM_QUANTIZE_OPTIONS_INIT;
  if (Status s = read_options("options", options, o); !s.is_ok()) return s;
  out = {.rule = static_cast<ScaleRule>(o.rule),
         .non_finite = static_cast<NonFinite>(o.non_finite),
         .threads = pool_of(o.threads)};
  return {};
}

Status read_epilogue(const mxgemm_epilogue* epilogue, Epilogue& out) noexcept {
  mxgemm_epilogue e = MXGEMM_EPILOGUE_INIT;
  if (Status s = read_options("epilogue", epilogue, e); !s.is_ok()) return s;
  if (e.bias_size < 0 || (e.bias == nullptr) != (e.bias_size == 0))
    return Status::error(
        StatusCode::invalid_argument,
        "epilogue.bias_size is %lld and bias is %s, must be n and set, or 0 and NULL",
        static_cast<long long>(e.bias_size), e.bias == nullptr ? "NULL" : "set");
  out = {.alpha = e.alpha, .bias = {e.bias, static_cast<std::size_t>(e.bias_size)}};
  return {};
}

/// Owner of borrowed bytes. `armed` only once the call that took it has succeeded.
struct Release {
  void (*function)(void*);
  void* arg;
  bool armed = false;
  ~Release() {
    if (armed) function(arg);
  }
};

/// Calls make(options), which returns a Result<Weights>, with the C options translated.
template <class Make>
mxgemm_status make_weights(const mxgemm_weights_options* options, mxgemm_weights** out,
                           const Make& make) noexcept {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    mxgemm_weights_options o = MXGEMM_WEIGHTS_OPTIONS_INIT;
    if (Status s = read_options("options", options, o); !s.is_ok()) return s;
    Weights::Options translated;
    translated.num_experts = o.num_experts;
    if (o.scale_rule != nullptr) translated.scale_rule = o.scale_rule;
    std::shared_ptr<Release> release;
    if (o.release != nullptr) {
      release = std::make_shared<Release>(Release{o.release, o.release_arg});
      translated.keep_alive = release;
    }
    Result<Weights> weights = make(translated);
    if (!weights.is_ok()) return weights.status();
    *out = new mxgemm_weights{std::move(weights).value()};
    if (release != nullptr) release->armed = true;
    return {};
  });
}

template <class Make>
mxgemm_status make_weights(mxgemm_weights** out, const Make& make) noexcept {
  return make_weights(nullptr, out, [&](const Weights::Options&) { return make(); });
}

template <class A>
mxgemm_status run_plan(const mxgemm_plan* plan, const A* a, const mxgemm_matrix* c, void* workspace,
                       std::size_t workspace_bytes, const mxgemm_epilogue* epilogue,
                       void* stream) noexcept {
  if (plan == nullptr) return finish(null_argument("plan"));
  if (a == nullptr) return finish(null_argument("a"));
  if (c == nullptr) return finish(null_argument("c"));
  Epilogue e;
  if (Status s = read_epilogue(epilogue, e); !s.is_ok()) return finish(s);
  return finish(
      plan->plan.run(view(*a), view(*c), bytes_of(workspace, workspace_bytes), e, Stream{stream}));
}

template <class A>
mxgemm_status run_partial(const mxgemm_plan* plan, const A* a, const mxgemm_partial_range* range,
                          float* sums, std::size_t sums_size, mxgemm_partial_node* nodes,
                          std::size_t num_nodes, void* workspace, std::size_t workspace_bytes,
                          void* stream) noexcept {
  if (plan == nullptr) return finish(null_argument("plan"));
  if (a == nullptr) return finish(null_argument("a"));
  if (range == nullptr) return finish(null_argument("range"));
  if (sums == nullptr) return finish(null_argument("sums"));
  if (nodes == nullptr) return finish(null_argument("nodes"));
  PartialNode out[cpu::kMaxTreeDepth];
  const std::size_t room = std::min(num_nodes, std::size(out));
  const Status status =
      plan->plan.run_partial(view(*a), range_of(*range), {sums, sums_size}, {out, room},
                             bytes_of(workspace, workspace_bytes), Stream{stream});
  if (!status.is_ok()) return finish(status);
  for (std::size_t i = 0; i < room && out[i].data != nullptr; ++i)
    nodes[i] = {out[i].first_span, out[i].num_spans, out[i].data};
  return finish(status);
}

}  // namespace

const char* mxgemm_version(void) {
  return MXGEMM_VERSION;
}
const char* mxgemm_last_error(void) {
  return last_error.c_str();
}

const char* mxgemm_kernel_name(int32_t index) {
  const auto kernels = registry();
  if (index < 0 || static_cast<std::size_t>(index) >= kernels.size()) return nullptr;
  return kernels[static_cast<std::size_t>(index)]->name.data();
}

int mxgemm_kernel_runs_here(int32_t index) {
  int runs = 0;
  (void)guarded([&]() -> Status {
    const std::vector<KernelInfo> all = kernels();
    if (index >= 0 && static_cast<std::size_t>(index) < all.size())
      runs = all[static_cast<std::size_t>(index)].runs_here ? 1 : 0;
    return {};
  });
  return runs;
}

mxgemm_status mxgemm_thread_pool_create(int32_t num_threads, mxgemm_thread_pool** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(num_threads);
    if (!pool.is_ok()) return pool.status();
    *out = new mxgemm_thread_pool{std::move(pool).value()};
    return {};
  });
}
void mxgemm_thread_pool_destroy(mxgemm_thread_pool* pool) {
  delete pool;
}
int32_t mxgemm_thread_pool_num_threads(const mxgemm_thread_pool* pool) {
  return pool == nullptr ? 1 : pool->pool->num_threads();
}

mxgemm_status mxgemm_quantize(const mxgemm_const_matrix* in, const mxgemm_mxfp4_buffer* out,
                              const mxgemm_quantize_options* options) {
  if (in == nullptr) return finish(null_argument("in"));
  return mxgemm_quantize_activations(MXGEMM_CPU, 0, in, out, options, nullptr);
}

mxgemm_status mxgemm_quantize_activations(mxgemm_device_kind device, int32_t device_index,
                                          const mxgemm_const_matrix* a,
                                          const mxgemm_mxfp4_buffer* out,
                                          const mxgemm_quantize_options* options, void* stream) {
  if (a == nullptr) return finish(null_argument("a"));
  if (out == nullptr) return finish(null_argument("out"));
  QuantizeOptions o;
  if (Status s = read_quantize_options(options, o); !s.is_ok()) return finish(s);
  return finish(quantize_activations(device_of(device, device_index), view(*a), view(*out), o,
                                     Stream{stream}));
}

mxgemm_status mxgemm_dequantize(const mxgemm_mxfp4_view* in, const mxgemm_matrix* out,
                                mxgemm_thread_pool* threads) {
  if (in == nullptr) return finish(null_argument("in"));
  if (out == nullptr) return finish(null_argument("out"));
  return finish(dequantize(view(*in), view(*out), pool_of(threads)));
}

mxgemm_status mxgemm_layout_bytes(mxgemm_layout layout, int64_t n, int64_t k, int64_t* codes_bytes,
                                  int64_t* scales_bytes) {
  return guarded([&]() -> Status {
    const Result<LayoutBytes> bytes = layout_bytes(static_cast<Layout>(layout), n, k);
    if (!bytes.is_ok()) return bytes.status();
    if (codes_bytes != nullptr) *codes_bytes = bytes->codes_bytes;
    if (scales_bytes != nullptr) *scales_bytes = bytes->scales_bytes;
    return {};
  });
}

mxgemm_status mxgemm_weights_from_row_major(const mxgemm_mxfp4_view* w,
                                            const mxgemm_weights_options* options,
                                            mxgemm_weights** out) {
  if (w == nullptr) return finish(null_argument("w"));
  return make_weights(options, out, [&](const Weights::Options& o) {
    return Weights::from_row_major(view(*w), o);
  });
}

mxgemm_status mxgemm_weights_from_aiter(int64_t n, int64_t k, const uint8_t* codes,
                                        size_t codes_bytes, const uint8_t* scales,
                                        size_t scales_bytes, const mxgemm_weights_options* options,
                                        mxgemm_weights** out) {
  if (codes == nullptr) return finish(null_argument("codes"));
  if (scales == nullptr) return finish(null_argument("scales"));
  return make_weights(options, out, [&](const Weights::Options& o) {
    return Weights::from_aiter(n, k, {codes, codes_bytes}, {scales, scales_bytes}, o);
  });
}

mxgemm_status mxgemm_weights_from_gguf(int64_t n, int64_t k, const uint8_t* blocks,
                                       size_t blocks_bytes, const mxgemm_weights_options* options,
                                       mxgemm_weights** out) {
  if (blocks == nullptr) return finish(null_argument("blocks"));
  return make_weights(options, out, [&](const Weights::Options& o) {
    return Weights::from_gguf(n, k, {blocks, blocks_bytes}, o);
  });
}

mxgemm_status mxgemm_weights_quantize(const mxgemm_const_matrix* w,
                                      const mxgemm_quantize_options* options, int64_t num_experts,
                                      mxgemm_weights** out) {
  if (w == nullptr) return finish(null_argument("w"));
  return make_weights(out, [&]() -> Result<Weights> {
    QuantizeOptions o;
    if (Status s = read_quantize_options(options, o); !s.is_ok()) return s;
    return Weights::quantize(view(*w), o, num_experts);
  });
}

mxgemm_status mxgemm_weights_pack(const mxgemm_weights* weights, mxgemm_device_kind device,
                                  int32_t device_index, mxgemm_thread_pool* threads,
                                  mxgemm_weights** out) {
  if (weights == nullptr) return finish(null_argument("weights"));
  return make_weights(out, [&] {
    return weights->weights.pack(device_of(device, device_index), pool_of(threads));
  });
}

mxgemm_status mxgemm_weights_to_layout(const mxgemm_weights* weights, mxgemm_layout layout,
                                       mxgemm_thread_pool* threads, mxgemm_weights** out) {
  if (weights == nullptr) return finish(null_argument("weights"));
  return make_weights(out, [&] {
    return weights->weights.to_layout(static_cast<Layout>(layout), pool_of(threads));
  });
}

mxgemm_status mxgemm_weights_slice(const mxgemm_weights* weights, int64_t expert,
                                   mxgemm_weights** out) {
  if (weights == nullptr) return finish(null_argument("weights"));
  return make_weights(out, [&] { return weights->weights.slice(expert); });
}

mxgemm_status mxgemm_weights_copy_row_major(const mxgemm_weights* weights,
                                            const mxgemm_mxfp4_buffer* out,
                                            mxgemm_thread_pool* threads) {
  if (weights == nullptr) return finish(null_argument("weights"));
  if (out == nullptr) return finish(null_argument("out"));
  return finish(weights->weights.copy_row_major(view(*out), pool_of(threads)));
}

void mxgemm_weights_destroy(mxgemm_weights* weights) {
  delete weights;
}
int64_t mxgemm_weights_num_experts(const mxgemm_weights* w) {
  return w->weights.num_experts();
}
int64_t mxgemm_weights_n(const mxgemm_weights* w) {
  return w->weights.n();
}
int64_t mxgemm_weights_k(const mxgemm_weights* w) {
  return w->weights.k();
}
int64_t mxgemm_weights_bytes(const mxgemm_weights* w) {
  return w->weights.bytes();
}
mxgemm_layout mxgemm_weights_layout(const mxgemm_weights* w) {
  return static_cast<mxgemm_layout>(w->weights.layout());
}
const uint8_t* mxgemm_weights_codes(const mxgemm_weights* w, size_t* size) {
  const std::span<const std::uint8_t> bytes = w->weights.codes();
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}
const uint8_t* mxgemm_weights_scales(const mxgemm_weights* w, size_t* size) {
  const std::span<const std::uint8_t> bytes = w->weights.scales();
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}
const char* mxgemm_weights_scale_rule(const mxgemm_weights* w) {
  return w->weights.scale_rule().data();  // a std::string underneath, so 0-terminated
}

mxgemm_status mxgemm_tuning_load(const char* path, mxgemm_tuning** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    if (path == nullptr) return null_argument("path");
    Result<Tuning> tuning = Tuning::load(path);
    if (!tuning.is_ok()) return tuning.status();
    *out = new mxgemm_tuning{std::move(tuning).value()};
    return {};
  });
}
void mxgemm_tuning_destroy(mxgemm_tuning* tuning) {
  delete tuning;
}
int64_t mxgemm_tuning_num_rows(const mxgemm_tuning* tuning) {
  return tuning->tuning.num_rows();
}

mxgemm_status mxgemm_plan_create(mxgemm_device_kind device, int32_t device_index,
                                 const mxgemm_weights* weights, int64_t m_max,
                                 const mxgemm_plan_options* options, mxgemm_plan** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    if (weights == nullptr) return null_argument("weights");
    mxgemm_plan_options o = MXGEMM_PLAN_OPTIONS_INIT;
    if (Status s = read_options("options", options, o); !s.is_ok()) return s;
    const PlanOptions translated{
        .activation = static_cast<Activation>(o.activation),
        .activation_rule = static_cast<ScaleRule>(o.activation_rule),
        .non_finite = static_cast<NonFinite>(o.non_finite),
        .reproducible = static_cast<Reproducible>(o.reproducible),
        .kernel = o.kernel == nullptr ? std::string_view() : std::string_view(o.kernel),
        .threads = pool_of(o.threads),
        .tuning = o.tuning == nullptr ? nullptr : &o.tuning->tuning};
    Result<Plan> plan =
        Plan::create(device_of(device, device_index), weights->weights, m_max, translated);
    if (!plan.is_ok()) return plan.status();
    *out = new mxgemm_plan{std::move(plan).value()};
    return {};
  });
}

void mxgemm_plan_destroy(mxgemm_plan* plan) {
  delete plan;
}
size_t mxgemm_plan_workspace_bytes(const mxgemm_plan* plan, int64_t m) {
  return m < 0 ? plan->plan.workspace_bytes() : plan->plan.workspace_bytes(m);
}
const char* mxgemm_plan_kernel(const mxgemm_plan* plan, int64_t m) {
  return plan->plan.kernel(m).data();
}

size_t mxgemm_plan_explain(const mxgemm_plan* plan, char* buffer, size_t size) {
  size_t length = 0;
  (void)guarded([&]() -> Status {
    const std::string text = plan->plan.explain();
    length = text.size();
    if (buffer != nullptr && size > 0) buffer[text.copy(buffer, size - 1)] = '\0';
    return {};
  });
  return length;
}

const char* mxgemm_plan_warning(const mxgemm_plan* plan) {
  return plan->plan.warning().data();  // a std::string underneath, so 0-terminated
}

mxgemm_status mxgemm_plan_run(const mxgemm_plan* plan, const mxgemm_const_matrix* a,
                              const mxgemm_matrix* c, void* workspace, size_t workspace_bytes,
                              const mxgemm_epilogue* epilogue, void* stream) {
  return run_plan(plan, a, c, workspace, workspace_bytes, epilogue, stream);
}

mxgemm_status mxgemm_plan_run_mxfp4(const mxgemm_plan* plan, const mxgemm_mxfp4_view* a,
                                    const mxgemm_matrix* c, void* workspace, size_t workspace_bytes,
                                    const mxgemm_epilogue* epilogue, void* stream) {
  return run_plan(plan, a, c, workspace, workspace_bytes, epilogue, stream);
}

mxgemm_status mxgemm_plan_num_partial_nodes(const mxgemm_plan* plan,
                                            const mxgemm_partial_range* range, int64_t* out) {
  if (plan == nullptr) return finish(null_argument("plan"));
  if (range == nullptr) return finish(null_argument("range"));
  if (out == nullptr) return finish(null_argument("out"));
  const Result<std::int64_t> count = plan->plan.num_partial_nodes(range_of(*range));
  if (count.is_ok()) *out = *count;
  return finish(count.status());
}

mxgemm_status mxgemm_plan_run_partial(const mxgemm_plan* plan, const mxgemm_const_matrix* a,
                                      const mxgemm_partial_range* range, float* sums,
                                      size_t sums_size, mxgemm_partial_node* nodes,
                                      size_t num_nodes, void* workspace, size_t workspace_bytes,
                                      void* stream) {
  return run_partial(plan, a, range, sums, sums_size, nodes, num_nodes, workspace, workspace_bytes,
                     stream);
}

mxgemm_status mxgemm_plan_run_partial_mxfp4(const mxgemm_plan* plan, const mxgemm_mxfp4_view* a,
                                            const mxgemm_partial_range* range, float* sums,
                                            size_t sums_size, mxgemm_partial_node* nodes,
                                            size_t num_nodes, void* workspace,
                                            size_t workspace_bytes, void* stream) {
  return run_partial(plan, a, range, sums, sums_size, nodes, num_nodes, workspace, workspace_bytes,
                     stream);
}

mxgemm_status mxgemm_combine_partial_nodes(const mxgemm_partial_node* nodes, size_t num_nodes,
                                           const mxgemm_matrix* c,
                                           const mxgemm_epilogue* epilogue) {
  if (nodes == nullptr) return finish(null_argument("nodes"));
  if (c == nullptr) return finish(null_argument("c"));
  Epilogue e;
  if (Status s = read_epilogue(epilogue, e); !s.is_ok()) return finish(s);
  return finish(combine_nodes(std::span<const mxgemm_partial_node>(nodes, num_nodes), view(*c), e));
}
