// Symbols are hidden unless marked; see docs/api.md.
#pragma once

// C++: the standard spelling, which may stand beside [[nodiscard]] in gcc 12.
#ifdef __cplusplus
#define MXGEMM_EXPORT [[gnu::visibility("default")]]
#else
#define MXGEMM_EXPORT __attribute__((visibility("default")))
#endif
