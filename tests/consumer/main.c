/* The C side of main.cpp: ones times ones gives K, and a wrong call says what is wrong. */
#include <mxgemm/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 3, N = 5, K = 64 };

int main(void) {
  static float ones[N * K], c[M * N];
  for (int i = 0; i < N * K; ++i) ones[i] = 1.0f;
  const mxgemm_const_matrix w = {ones, MXGEMM_F32, N, K, K};
  const mxgemm_const_matrix a = {ones, MXGEMM_F32, M, K, K};
  const mxgemm_matrix out = {c, MXGEMM_F32, M, N, N};

  mxgemm_weights* weights = NULL;
  mxgemm_plan* plan = NULL;
  if (mxgemm_weights_quantize(&w, NULL, 1, &weights) != MXGEMM_OK ||
      mxgemm_plan_create(MXGEMM_CPU, 0, weights, M, NULL, &plan) != MXGEMM_OK) {
    return printf("%s\n", mxgemm_last_error()), 1;
  }
  const size_t bytes = mxgemm_plan_workspace_bytes(plan, -1);
  void* workspace = malloc(bytes + 1);
  if (mxgemm_plan_run(plan, &a, &out, workspace, bytes, NULL, NULL) != MXGEMM_OK) {
    return printf("%s\n", mxgemm_last_error()), 1;
  }
  for (int i = 0; i < M * N; ++i) {
    if (c[i] != (float)K) return printf("got %f, want %d\n", c[i], K), 1;
  }

  const mxgemm_const_matrix narrow = {ones, MXGEMM_F32, M, K - 1, K};
  if (mxgemm_plan_run(plan, &narrow, &out, workspace, bytes, NULL, NULL) !=
          MXGEMM_INVALID_ARGUMENT ||
      strlen(mxgemm_last_error()) == 0) {
    return printf("a matrix of the wrong width was not refused\n"), 1;
  }
  free(workspace);
  mxgemm_plan_destroy(plan);
  mxgemm_weights_destroy(weights);
  printf("C consumer: mxgemm %s, right\n", mxgemm_version());
  return 0;
}
