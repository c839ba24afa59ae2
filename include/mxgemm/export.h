// Symbols are hidden unless marked; see docs/api.md.
#pragma once
#define MXGEMM_EXPORT __attribute__((visibility("default")))
