#include "io/atomic_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "io/mapped_file.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kBufferBytes = 1u << 20;
constexpr std::size_t kMaxCall = 1u << 30;  // one write(2) takes at most 2 GiB

Status system_error(const std::string& name, const char* verb, int error) {
  return Status::error(StatusCode::io_error, "%s: cannot %s: %s", name.c_str(), verb,
                       std::strerror(error));
}

// Unique in this process by the counter, on this machine by the process id.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), ".mxgemm-%ld-%u.tmp", static_cast<long>(::getpid()),
                counter.fetch_add(1));
  return name.data();
}

// So that the new name survives a crash. Some file systems cannot do it for folders.
void sync_folder(const fs::path& folder) noexcept {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

struct AtomicFile::Impl {
  fs::path target, folder, temporary;
  std::string name;  // of the target, for messages
  int fd = -1;
  Status failure;
  std::vector<std::uint8_t> buffer;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { discard(); }

  void discard() noexcept {
    if (fd >= 0) ::close(fd);
    fd = -1;
    if (!temporary.empty()) ::unlink(temporary.c_str());
    temporary.clear();
  }

  Status fail(const char* verb, int error) {
    failure = system_error(name, verb, error);
    discard();
    return failure;
  }

  Status write_all(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kMaxCall));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return fail("write", n < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  Status flush() {
    const Status status = write_all(buffer);
    buffer.clear();
    return status;
  }
};

AtomicFile::AtomicFile(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&&) noexcept = default;
AtomicFile::~AtomicFile() = default;

Result<AtomicFile> AtomicFile::create(const fs::path& path) try {
  if (!path.has_filename()) {
    return Status::error(StatusCode::invalid_argument, "output path '%s' has no file name",
                         display_name(path).c_str());
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return Status::error(StatusCode::invalid_argument,
                         "%s: is a folder, needs to be the name of a file to write",
                         display_name(path).c_str());
  }
  // A link is written through; a device or pipe would be replaced by a file, so it is refused.
  fs::path target = path;
  if (fs::is_symlink(path, ignored)) {
    std::error_code error;
    target = fs::weakly_canonical(path, error);
    if (error || fs::is_symlink(target, ignored)) {
      return Status::error(StatusCode::io_error, "%s: cannot follow the link",
                           display_name(path).c_str());
    }
  }
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    return Status::error(
        StatusCode::invalid_argument,
        "%s: is a device, pipe or socket, needs to be a regular file or a new name",
        display_name(path).c_str());
  }
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  impl->name = display_name(path);
  impl->buffer.reserve(kBufferBytes);
  constexpr int kAttempts = 100;  // names that a killed process with the same id left behind
  for (int i = 0; i < kAttempts && impl->fd < 0; ++i) {
    const fs::path candidate = impl->folder / temporary_name();
    impl->fd = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (impl->fd >= 0) {
      impl->temporary = candidate;
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (impl->fd < 0) return system_error(impl->name, "create a temporary file beside it", errno);
  return AtomicFile(std::move(impl));
} catch (const std::bad_alloc&) {
  return Status::error(StatusCode::out_of_memory, "no memory for a file's write buffer");
}

Status AtomicFile::write(std::span<const std::uint8_t> bytes) {
  if (!impl_->failure.is_ok()) return impl_->failure;
  if (impl_->buffer.size() + bytes.size() > kBufferBytes) {
    if (const Status status = impl_->flush(); !status.is_ok()) return status;
  }
  if (bytes.size() >= kBufferBytes) return impl_->write_all(bytes);
  impl_->buffer.insert(impl_->buffer.end(), bytes.begin(), bytes.end());
  return {};
}

Status AtomicFile::write(std::string_view text) {
  return write(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

Status AtomicFile::commit() {
  Impl& file = *impl_;
  if (!file.failure.is_ok()) return file.failure;
  if (const Status status = file.flush(); !status.is_ok()) return status;
  if (::fsync(file.fd) != 0) return file.fail("flush to the disk", errno);
  const int fd = std::exchange(file.fd, -1);
  if (::close(fd) != 0) return file.fail("close", errno);
  if (::rename(file.temporary.c_str(), file.target.c_str()) != 0) {
    return file.fail("rename its temporary file into place", errno);
  }
  file.temporary.clear();
  file.failure =
      Status::error(StatusCode::invalid_argument, "%s: is already complete", file.name.c_str());
  sync_folder(file.folder);
  return {};
}

Status write_file(const fs::path& path, std::string_view contents) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.is_ok()) return file.status();
  if (const Status status = file->write(contents); !status.is_ok()) return status;
  return file->commit();
}

Status copy_file(const fs::path& from, const fs::path& to) {
  const Result<MappedFile> source = MappedFile::open(from);
  if (!source.is_ok()) return source.status();
  Result<AtomicFile> target = AtomicFile::create(to);
  if (!target.is_ok()) return target.status();
  // In pieces that are dropped again, so that memory stays small whatever the file's size.
  constexpr std::size_t kPiece = 16u << 20;
  for (std::span<const std::uint8_t> rest = source->bytes(); !rest.empty();) {
    const std::span piece = rest.first(std::min(rest.size(), kPiece));
    if (const Status status = target->write(piece); !status.is_ok()) return status;
    MappedFile::release(piece);
    rest = rest.subspan(piece.size());
  }
  return target->commit();
}

}  // namespace mxgemm::io
