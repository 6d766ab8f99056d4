#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/os/folder.hpp"
#include "base/os/system_error.hpp"

namespace weft::os {

std::string random_digits() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    throw_system_error("getrandom", "", errno);
  return fmt::format("{:016x}", number);
}

Draft::Draft(Folder folder, std::string name, mode_t mode)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      draft_(fmt::format("{}.{}.tmp", name_, random_digits())) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  folder_.check_name(name_);
  file_ = Fd(::openat(folder_.fd(), draft_.c_str(), kFlags, mode));
  if (!file_) throw_system_error(folder_.operation(), (folder_.path() / draft_).native(), errno);
}

Draft::~Draft() {
  if (!draft_.empty()) ::unlinkat(folder_.fd(), draft_.c_str(), 0);
}

void Draft::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw_system_error(folder_.operation(), (folder_.path() / name_).native(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void Draft::write_start(std::span<const std::byte> bytes) {
  if (::lseek(file_.get(), 0, SEEK_SET) != 0)
    throw_system_error(folder_.operation(), (folder_.path() / name_).native(), errno);
  write(bytes);
}

void Draft::sync() {
  if (::fsync(file_.get()) != 0)
    throw_system_error(folder_.operation(), (folder_.path() / name_).native(), errno);
}

void Draft::publish() {
  if (::renameat(folder_.fd(), draft_.c_str(), folder_.fd(), name_.c_str()) != 0)
    throw_system_error(folder_.operation(), (folder_.path() / name_).native(), errno);
  draft_.clear();
}

void Draft::publish_if_none() {
  if (::linkat(folder_.fd(), draft_.c_str(), folder_.fd(), name_.c_str(), 0) == 0 ||
      errno == EEXIST)
    return;  // the destructor removes the draft's name
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
    throw_system_error(folder_.operation(), (folder_.path() / name_).native(), errno);
  if (!folder_.has(name_)) publish();  // for file systems without hard links
}

}  // namespace weft::os
