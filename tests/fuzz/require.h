// What must hold in a fuzz target, in every build type.
#pragma once

#include <cstdio>
#include <cstdlib>

#define MXGEMM_REQUIRE(condition)                                                    \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
