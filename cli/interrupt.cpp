#include "interrupt.h"

#include <csignal>

namespace mxgemm::cli {
namespace {

volatile std::sig_atomic_t caught = 0;

extern "C" void note_signal(int signal) {
  caught = signal;
}

}  // namespace

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the process at once
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction old = {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup, background jobs
  }
}

void report_write_signals() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
}

int interrupted() noexcept {
  return caught;
}

Status check_interrupted() {
  if (caught == 0) return {};
  return Status::error(StatusCode::io_error, "interrupted by signal %d, nothing was written",
                       static_cast<int>(caught));
}

}  // namespace mxgemm::cli
