// Ctrl-C and termination while a checkpoint is written: the command stops at the next step and
// its destructors remove what is half done.
#pragma once

#include "mxgemm/status.h"

namespace mxgemm::cli {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless ignored, are noted instead of ending the
/// process.
void watch_signals();

/// A closed pipe or a file size limit becomes an error of the write, not the end of the process.
void report_write_signals();

/// The signal that came, or 0.
int interrupted() noexcept;

/// An error if a signal came.
Status check_interrupted();

}  // namespace mxgemm::cli
