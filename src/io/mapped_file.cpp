#include "io/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/text.h"

namespace mxgemm::io {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status system_error(const std::filesystem::path& path, const char* verb) {
  return Status::error(StatusCode::io_error, "%s: cannot %s: %s", display_name(path).c_str(), verb,
                       std::strerror(errno));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return system_error(path, "open");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return system_error(path, "read its size");
  if (!S_ISREG(info.st_mode)) {
    return Status::error(StatusCode::io_error, "%s: is %s, needs to be a regular file",
                         display_name(path).c_str(),
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size == 0) return MappedFile({});
  if (size > std::numeric_limits<std::size_t>::max() / 2) {
    return Status::error(StatusCode::io_error,
                         "%s: %llu bytes are more than this machine can address",
                         display_name(path).c_str(), static_cast<unsigned long long>(size));
  }
  const auto length = static_cast<std::size_t>(size);
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) return system_error(path, "map");
  ::madvise(address, length, MADV_SEQUENTIAL);  // only a hint
  return MappedFile({static_cast<const std::uint8_t*>(address), length});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::uint8_t> part) noexcept {
  // Inward, so that neighbours that are in use stay in memory.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + part.size()) / page * page;
  if (begin >= end) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace mxgemm::io
