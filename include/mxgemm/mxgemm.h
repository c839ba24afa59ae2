// mxgemm: MXFP4 linear layers. This header is the whole C++ API; c_api.h is the C one.
#pragma once

#include "mxgemm/device.h"    // IWYU pragma: export
#include "mxgemm/kernels.h"   // IWYU pragma: export
#include "mxgemm/plan.h"      // IWYU pragma: export
#include "mxgemm/quantize.h"  // IWYU pragma: export
#include "mxgemm/status.h"    // IWYU pragma: export
#include "mxgemm/tensor.h"    // IWYU pragma: export
#include "mxgemm/threads.h"   // IWYU pragma: export
#include "mxgemm/tuning.h"    // IWYU pragma: export
#include "mxgemm/version.h"   // IWYU pragma: export
#include "mxgemm/weights.h"   // IWYU pragma: export
