#include "mxgemm/tuning.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "api/tuning_impl.h"
#include "backend/cpu/isa.h"
#include "plan/tuning_text.h"

namespace mxgemm {
namespace {

/// The end of a long name says more than its start.
Status with_name(std::string_view name, const Status& status) {
  constexpr std::size_t kShown = 200;
  const bool cut = name.size() > kShown;
  if (cut) name.remove_prefix(name.size() - kShown);
  return Status::error(status.code(), "%s%.*s: %s", cut ? "..." : "", static_cast<int>(name.size()),
                       name.data(), status.c_str());
}

Status cannot_read(int error) {
  return Status::error(StatusCode::io_error, "cannot read it: %s",
                       std::generic_category().message(error).c_str());
}

/// Closes what it was given.
class File {
 public:
  // Not blocking: a pipe without a writer would keep the caller waiting before it can be refused.
  explicit File(const char* path) noexcept : fd_(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

/// A regular file of at most kMaxTuningBytes; of a larger one, enough to tell.
Result<std::string> read_text(const std::string& path) {
  const File file(path.c_str());
  if (file.fd() < 0) return cannot_read(errno);
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return cannot_read(errno);
  if (!S_ISREG(info.st_mode)) return Status::error(StatusCode::io_error, "it is no regular file");
  std::string text;
  char buffer[1 << 14];
  while (text.size() <= kMaxTuningBytes) {
    const ssize_t count = read(file.fd(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(errno);
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

Result<Tuning> make_tuning(std::string text, std::string_view name) {
  auto impl = std::make_shared<Tuning::Impl>();
  impl->name = name;
  impl->text = std::move(text);
  Result<std::vector<TuningRow>> rows =
      parse_tuning(impl->text, tuning_build(registry()), registry());
  if (!rows.is_ok()) return with_name(name, rows.status());
  impl->rows = std::move(rows).value();
  return Tuning(std::shared_ptr<const Tuning::Impl>(std::move(impl)));
}

/// Runs what may allocate.
template <class Make>
Result<Tuning> guarded(const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "no memory for a tuning table");
  }
}

}  // namespace

Tuning::Tuning(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

Result<Tuning> Tuning::parse(std::string_view text, std::string_view name) {
  return guarded([&] { return make_tuning(std::string(text), name); });
}

Result<Tuning> Tuning::load(const std::string& path) {
  return guarded([&]() -> Result<Tuning> {
    Result<std::string> text = read_text(path);
    if (!text.is_ok()) return with_name(path, text.status());
    return make_tuning(std::move(text).value(), path);
  });
}

Result<Tuning> Tuning::from_environment() {
  const char* path = std::getenv("MXGEMM_TUNING");
  if (path != nullptr && *path != '\0') return load(path);
  return guarded([]() -> Result<Tuning> { return Tuning(std::make_shared<const Impl>()); });
}

std::string_view Tuning::name() const noexcept {
  return impl_->name;
}

std::int64_t Tuning::num_rows() const noexcept {
  return static_cast<std::int64_t>(impl_->rows.size());
}

std::int64_t Tuning::num_rows(std::string_view device) const noexcept {
  return std::count_if(impl_->rows.begin(), impl_->rows.end(),
                       [&](const TuningRow& row) { return row.device == device; });
}

std::string Tuning::device(const Device& device) {
  std::string text = to_string(Device{device.kind, 0});
  text = text.substr(0, text.find(':'));
  if (device.kind != DeviceKind::cpu) return text;
  const Result<cpu::Isa> isa = cpu::usable_isa();
  text += "-" + cpu::model_name();
  return text + "-" + std::string(isa.is_ok() ? cpu::to_string(*isa) : "unknown");
}

std::string Tuning::build() {
  return tuning_build(registry());
}

}  // namespace mxgemm
