/* The C ABI: the C++ API of this folder behind opaque handles. C99.
 *
 * Rules
 * - Functions that can fail return mxgemm_status; 0 is success. mxgemm_last_error() then holds the
 *   sentence for the calling thread until its next failing call.
 * - Option structs start with struct_size, which the caller sets to sizeof(the struct) (their
 *   MXGEMM_..._INIT does); fields added later keep their default for older callers, and a newer
 *   caller's unknown fields must be zero (no struct has padding at its end).
 * - Handles are immutable and may be used from many threads; destroy accepts NULL, accessors that
 *   return no status take a handle that is not NULL. After fork() a child makes its own thread
 * pools and plans: threads do not survive it.
 * - All sizes are elements unless a name says bytes; matrices are row-major with unit column
 *   stride; strides count elements, of MXFP4 codes and scales bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "mxgemm/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxgemm_status {
  MXGEMM_OK = 0,
  MXGEMM_INVALID_ARGUMENT = 1,
  MXGEMM_UNSUPPORTED = 2,
  MXGEMM_OUT_OF_MEMORY = 3,
  MXGEMM_BAD_DATA = 4,
  MXGEMM_IO_ERROR = 5
} mxgemm_status;

typedef enum mxgemm_dtype { MXGEMM_BF16 = 0, MXGEMM_F16 = 1, MXGEMM_F32 = 2 } mxgemm_dtype;
typedef enum mxgemm_device_kind {
  MXGEMM_CPU = 0,
  MXGEMM_CUDA = 1,
  MXGEMM_HIP = 2
} mxgemm_device_kind;
typedef enum mxgemm_layout {
  MXGEMM_ROW_MAJOR = 0,
  MXGEMM_AITER_16X16 = 1,
  MXGEMM_GGUF_MXFP4 = 2,
  MXGEMM_CPU_PANEL16 = 3
} mxgemm_layout;
typedef enum mxgemm_scale_rule {
  MXGEMM_SCALE_EVEN = 0,
  MXGEMM_SCALE_FLOOR = 1,
  MXGEMM_SCALE_RCEIL = 2,
  MXGEMM_SCALE_CEIL = 3
} mxgemm_scale_rule;
typedef enum mxgemm_non_finite { MXGEMM_PROPAGATE = 0, MXGEMM_SATURATE = 1 } mxgemm_non_finite;
typedef enum mxgemm_reproducible {
  MXGEMM_REPRODUCIBLE_RUN = 0,
  MXGEMM_REPRODUCIBLE_BATCH = 1,
  MXGEMM_REPRODUCIBLE_DEVICE = 2
} mxgemm_reproducible;
typedef enum mxgemm_activation {
  MXGEMM_ACTIVATION_MXFP4 = 0,
  MXGEMM_ACTIVATION_NONE = 1
} mxgemm_activation;

typedef struct mxgemm_weights mxgemm_weights;
typedef struct mxgemm_plan mxgemm_plan;
typedef struct mxgemm_thread_pool mxgemm_thread_pool;
typedef struct mxgemm_tuning mxgemm_tuning;

/* data[rows, cols] of a floating-point type. */
typedef struct mxgemm_const_matrix {
  const void* data;
  mxgemm_dtype dtype;
  int64_t rows, cols, row_stride;
} mxgemm_const_matrix;
typedef struct mxgemm_matrix {
  void* data;
  mxgemm_dtype dtype;
  int64_t rows, cols, row_stride;
} mxgemm_matrix;
/* Row-major MXFP4: codes[rows, (cols + 1) / 2], scales[rows, (cols + 31) / 32]. */
typedef struct mxgemm_mxfp4_view {
  const uint8_t* codes;
  const uint8_t* scales;
  int64_t rows, cols, codes_stride, scales_stride;
} mxgemm_mxfp4_view;
typedef struct mxgemm_mxfp4_buffer {
  uint8_t* codes;
  uint8_t* scales;
  int64_t rows, cols, codes_stride, scales_stride;
} mxgemm_mxfp4_buffer;

typedef struct mxgemm_quantize_options {
  size_t struct_size;
  mxgemm_scale_rule rule;
  mxgemm_non_finite non_finite;
  mxgemm_thread_pool* threads; /* NULL: the calling thread */
} mxgemm_quantize_options;
#define MXGEMM_QUANTIZE_OPTIONS_INIT \
  { sizeof(mxgemm_quantize_options), MXGEMM_SCALE_EVEN, MXGEMM_PROPAGATE, NULL }

typedef struct mxgemm_weights_options {
  size_t struct_size;
  int64_t num_experts;
  const char* scale_rule;     /* recorded; NULL: "unknown" */
  void (*release)(void* arg); /* NULL: the bytes are copied. Else they are borrowed, and release is
                                 called once, when nothing uses them any more. When the call that
                                 takes these options fails, release is not called. */
  void* release_arg;
} mxgemm_weights_options;
#define MXGEMM_WEIGHTS_OPTIONS_INIT \
  { sizeof(mxgemm_weights_options), 1, NULL, NULL, NULL }

typedef struct mxgemm_plan_options {
  size_t struct_size;
  mxgemm_activation activation;
  mxgemm_scale_rule activation_rule;
  mxgemm_non_finite non_finite;
  mxgemm_reproducible reproducible;
  const char* kernel;          /* a registry name, or NULL: the best */
  mxgemm_thread_pool* threads; /* must outlive the plan; NULL: the calling thread */
  const mxgemm_tuning* tuning; /* may be destroyed once the plan is there; NULL: that of
                                  MXGEMM_TUNING */
} mxgemm_plan_options;
#define MXGEMM_PLAN_OPTIONS_INIT                                                               \
  {                                                                                            \
    sizeof(mxgemm_plan_options), MXGEMM_ACTIVATION_MXFP4, MXGEMM_SCALE_EVEN, MXGEMM_PROPAGATE, \
        MXGEMM_REPRODUCIBLE_RUN, NULL, NULL, NULL                                              \
  }

/* C = alpha * S + bias. */
typedef struct mxgemm_epilogue {
  size_t struct_size;
  float alpha;
  const float* bias; /* bias_size values, or NULL */
  int64_t bias_size; /* n, or 0 */
} mxgemm_epilogue;
#define MXGEMM_EPILOGUE_INIT \
  { sizeof(mxgemm_epilogue), 1.0f, NULL, 0 }

/* A part of K, cut at multiples of 256 or at K; see Plan::run_partial in plan.h. */
typedef struct mxgemm_partial_range {
  int64_t k_begin;
  int64_t k_end; /* -1: K */
  int64_t first_span;
} mxgemm_partial_range;
typedef struct mxgemm_partial_node {
  int64_t first_span, num_spans;
  const float* data; /* [M, N] */
} mxgemm_partial_node;

/* "major.minor.patch" of the library that is loaded. */
MXGEMM_EXPORT const char* mxgemm_version(void);
/* Why this thread's last failing call failed; "" when none has. */
MXGEMM_EXPORT const char* mxgemm_last_error(void);
/* Name of the index-th kernel of the registry, most specialised first; NULL past the end. */
MXGEMM_EXPORT const char* mxgemm_kernel_name(int32_t index);
/* 1 when this machine can run it, else 0. */
MXGEMM_EXPORT int mxgemm_kernel_runs_here(int32_t index);

/* num_threads 0: as many as the process may use. */
MXGEMM_EXPORT mxgemm_status mxgemm_thread_pool_create(int32_t num_threads,
                                                      mxgemm_thread_pool** out);
MXGEMM_EXPORT void mxgemm_thread_pool_destroy(mxgemm_thread_pool* pool);
MXGEMM_EXPORT int32_t mxgemm_thread_pool_num_threads(const mxgemm_thread_pool* pool);

/* options NULL: the defaults. */
MXGEMM_EXPORT mxgemm_status mxgemm_quantize(const mxgemm_const_matrix* in,
                                            const mxgemm_mxfp4_buffer* out,
                                            const mxgemm_quantize_options* options);
MXGEMM_EXPORT mxgemm_status mxgemm_quantize_activations(
    mxgemm_device_kind device, int32_t device_index, const mxgemm_const_matrix* a,
    const mxgemm_mxfp4_buffer* out, const mxgemm_quantize_options* options, void* stream);
MXGEMM_EXPORT mxgemm_status mxgemm_dequantize(const mxgemm_mxfp4_view* in, const mxgemm_matrix* out,
                                              mxgemm_thread_pool* threads);

/* Bytes of one [n, k] matrix in a layout. */
MXGEMM_EXPORT mxgemm_status mxgemm_layout_bytes(mxgemm_layout layout, int64_t n, int64_t k,
                                                int64_t* codes_bytes, int64_t* scales_bytes);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_from_row_major(const mxgemm_mxfp4_view* w,
                                                          const mxgemm_weights_options* options,
                                                          mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_from_aiter(int64_t n, int64_t k, const uint8_t* codes,
                                                      size_t codes_bytes, const uint8_t* scales,
                                                      size_t scales_bytes,
                                                      const mxgemm_weights_options* options,
                                                      mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_from_gguf(int64_t n, int64_t k, const uint8_t* blocks,
                                                     size_t blocks_bytes,
                                                     const mxgemm_weights_options* options,
                                                     mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_quantize(const mxgemm_const_matrix* w,
                                                    const mxgemm_quantize_options* options,
                                                    int64_t num_experts, mxgemm_weights** out);
/* The layout that the device's best kernels read. */
MXGEMM_EXPORT mxgemm_status mxgemm_weights_pack(const mxgemm_weights* weights,
                                                mxgemm_device_kind device, int32_t device_index,
                                                mxgemm_thread_pool* threads, mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_to_layout(const mxgemm_weights* weights,
                                                     mxgemm_layout layout,
                                                     mxgemm_thread_pool* threads,
                                                     mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_slice(const mxgemm_weights* weights, int64_t expert,
                                                 mxgemm_weights** out);
MXGEMM_EXPORT mxgemm_status mxgemm_weights_copy_row_major(const mxgemm_weights* weights,
                                                          const mxgemm_mxfp4_buffer* out,
                                                          mxgemm_thread_pool* threads);
MXGEMM_EXPORT void mxgemm_weights_destroy(mxgemm_weights* weights);
MXGEMM_EXPORT int64_t mxgemm_weights_num_experts(const mxgemm_weights* weights);
MXGEMM_EXPORT int64_t mxgemm_weights_n(const mxgemm_weights* weights);
MXGEMM_EXPORT int64_t mxgemm_weights_k(const mxgemm_weights* weights);
MXGEMM_EXPORT int64_t mxgemm_weights_bytes(const mxgemm_weights* weights);
MXGEMM_EXPORT mxgemm_layout mxgemm_weights_layout(const mxgemm_weights* weights);
/* The stored bytes of all experts, *size of them; NULL and 0 where Weights::codes() has none. */
MXGEMM_EXPORT const uint8_t* mxgemm_weights_codes(const mxgemm_weights* weights, size_t* size);
MXGEMM_EXPORT const uint8_t* mxgemm_weights_scales(const mxgemm_weights* weights, size_t* size);
/* Valid as long as the weights. */
MXGEMM_EXPORT const char* mxgemm_weights_scale_rule(const mxgemm_weights* weights);

/* A table that `mxgemm tune` wrote; see tuning.h for what is refused. */
MXGEMM_EXPORT mxgemm_status mxgemm_tuning_load(const char* path, mxgemm_tuning** out);
MXGEMM_EXPORT void mxgemm_tuning_destroy(mxgemm_tuning* tuning);
MXGEMM_EXPORT int64_t mxgemm_tuning_num_rows(const mxgemm_tuning* tuning);

MXGEMM_EXPORT mxgemm_status mxgemm_plan_create(mxgemm_device_kind device, int32_t device_index,
                                               const mxgemm_weights* weights, int64_t m_max,
                                               const mxgemm_plan_options* options,
                                               mxgemm_plan** out);
MXGEMM_EXPORT void mxgemm_plan_destroy(mxgemm_plan* plan);
/* For m rows; m = -1: the largest over all m. */
MXGEMM_EXPORT size_t mxgemm_plan_workspace_bytes(const mxgemm_plan* plan, int64_t m);
/* Name of the kernel that serves m rows. */
MXGEMM_EXPORT const char* mxgemm_plan_kernel(const mxgemm_plan* plan, int64_t m);
/* Copies at most size - 1 characters and a 0; returns the length of the whole text. */
MXGEMM_EXPORT size_t mxgemm_plan_explain(const mxgemm_plan* plan, char* buffer, size_t size);
/* What creation had to ignore (a table of MXGEMM_TUNING that cannot be used); "": nothing. */
MXGEMM_EXPORT const char* mxgemm_plan_warning(const mxgemm_plan* plan);
/* Never allocates; epilogue NULL: none. stream: the GPU's, NULL on the CPU. */
MXGEMM_EXPORT mxgemm_status mxgemm_plan_run(const mxgemm_plan* plan, const mxgemm_const_matrix* a,
                                            const mxgemm_matrix* c, void* workspace,
                                            size_t workspace_bytes, const mxgemm_epilogue* epilogue,
                                            void* stream);
MXGEMM_EXPORT mxgemm_status mxgemm_plan_run_mxfp4(const mxgemm_plan* plan,
                                                  const mxgemm_mxfp4_view* a,
                                                  const mxgemm_matrix* c, void* workspace,
                                                  size_t workspace_bytes,
                                                  const mxgemm_epilogue* epilogue, void* stream);
MXGEMM_EXPORT mxgemm_status mxgemm_plan_num_partial_nodes(const mxgemm_plan* plan,
                                                          const mxgemm_partial_range* range,
                                                          int64_t* out);
/* sums: num_nodes x M x N floats; nodes: num_nodes of them. */
MXGEMM_EXPORT mxgemm_status mxgemm_plan_run_partial(const mxgemm_plan* plan,
                                                    const mxgemm_const_matrix* a,
                                                    const mxgemm_partial_range* range, float* sums,
                                                    size_t sums_size, mxgemm_partial_node* nodes,
                                                    size_t num_nodes, void* workspace,
                                                    size_t workspace_bytes, void* stream);
MXGEMM_EXPORT mxgemm_status mxgemm_plan_run_partial_mxfp4(
    const mxgemm_plan* plan, const mxgemm_mxfp4_view* a, const mxgemm_partial_range* range,
    float* sums, size_t sums_size, mxgemm_partial_node* nodes, size_t num_nodes, void* workspace,
    size_t workspace_bytes, void* stream);
MXGEMM_EXPORT mxgemm_status mxgemm_combine_partial_nodes(const mxgemm_partial_node* nodes,
                                                         size_t num_nodes, const mxgemm_matrix* c,
                                                         const mxgemm_epilogue* epilogue);

#ifdef __cplusplus
}
#endif
