/* One MXFP4 linear layer through the C API: quantize, pack, plan, run, destroy. */
#include <mxgemm/c_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 4, N = 64, K = 256 };

static void check(mxgemm_status status) {
  if (status == MXGEMM_OK) return;
  fprintf(stderr, "%s\n", mxgemm_last_error());
  exit(1);
}

int main(void) {
  static float w[N * K], x[M * K], y[M * N];
  /* Small whole numbers fit into 4 bits, so this product is exact. */
  for (int i = 0; i < N * K; ++i) w[i] = (float)(i % 7 - 3);
  for (int i = 0; i < M * K; ++i) x[i] = (float)(i % 5 - 2);
  const mxgemm_const_matrix w_view = {w, MXGEMM_F32, N, K, K};
  const mxgemm_const_matrix x_view = {x, MXGEMM_F32, M, K, K};
  const mxgemm_matrix y_view = {y, MXGEMM_F32, M, N, N};

  mxgemm_weights *weights, *packed;
  check(mxgemm_weights_quantize(&w_view, NULL, 1, &weights));
  check(mxgemm_weights_pack(weights, MXGEMM_CPU, 0, NULL, &packed));
  mxgemm_weights_destroy(weights);

  mxgemm_plan* plan;
  mxgemm_plan_options options = MXGEMM_PLAN_OPTIONS_INIT;
  options.reproducible = MXGEMM_REPRODUCIBLE_DEVICE;
  check(mxgemm_plan_create(MXGEMM_CPU, 0, packed, M, &options, &plan));
  const size_t workspace_bytes = mxgemm_plan_workspace_bytes(plan, M);
  void* workspace = malloc(workspace_bytes + 1);
  check(mxgemm_plan_run(plan, &x_view, &y_view, workspace, workspace_bytes, NULL, NULL));

  int wrong = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      float exact = 0;
      for (int k = 0; k < K; ++k) exact += x[m * K + k] * w[n * K + k];
      wrong += y[m * N + n] != exact;
    }
  }
  printf("mxgemm %s, %s: %d of %d values wrong\n", mxgemm_version(), mxgemm_plan_kernel(plan, M),
         wrong, M * N);
  free(workspace);
  mxgemm_plan_destroy(plan);
  mxgemm_weights_destroy(packed);
  return wrong != 0;
}
