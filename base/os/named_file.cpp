#include "base/os/named_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::os {
namespace {

/// A file that the user named, for error texts.
struct Named {
  const std::filesystem::path& path;
  const char* operation;

  [[noreturn]] void refuse(const std::string& why, const char* hint) const {
    ErrorDetail detail;
    detail.code = Code::system;
    detail.operation = operation;
    detail.message = fmt::format("{}: {}", path.native(), why);
    detail.hint = hint;
    throw Error(std::move(detail));
  }
  [[noreturn]] void fail() const { throw_system_error(operation, path.native(), errno); }
};

/// A symbolic link, or what is no file.
[[noreturn]] void refuse_to_open(const Named& named, int error) {
  if (error == ELOOP)
    named.refuse("it is a symbolic link, which is not followed here", "name the file itself");
  if (error == ENXIO) named.refuse("it is a FIFO or a socket", "name a regular file");
  throw_system_error(named.operation, named.path.native(), error);
}

/// Refuses names that the kernel would cut short.
void check_name(const Named& named) {
  if (named.path.native().find('\0') != std::string::npos)
    named.refuse("the name has a NUL", "name the file without a NUL");
}

/// Refuses a regular file that may be a trap.
void check_own(const Named& named, const struct stat& about) {
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    named.refuse(
        fmt::format("it belongs to user {}, this process is user {}'s", about.st_uid, ::geteuid()),
        "name a file in a folder that only this user may write to");
  if (about.st_nlink > 1)
    named.refuse("it has a second name, through which it may be another file",
                 "remove it, or name a file in a folder that only this user may write to");
}

void check_output(const Named& named, const struct stat& about) {
  if (S_ISCHR(about.st_mode)) return;
  if (!S_ISREG(about.st_mode))
    named.refuse("it is neither a regular file nor a device", "name a regular file");
  check_own(named, about);
}

void check_regular(const Named& named, const struct stat& about) {
  if (!S_ISREG(about.st_mode)) named.refuse("it is no regular file", "name a regular file");
}

std::string read_whole(const Named& named, const Fd& file, std::size_t most) {
  std::string text;
  for (char buffer[1 << 14];;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) named.fail();
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > most)
      named.refuse(fmt::format("it has more than {} bytes", most), "is it the right file?");
  }
}

}  // namespace

Fd open_output(const std::filesystem::path& path, Output how, const char* operation) {
  const Named named{path, operation};
  check_name(named);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int append = how == Output::append ? O_APPEND : 0;
  Fd file(::open(path.c_str(), kFlags | append, 0644));
  if (!file) refuse_to_open(named, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) named.fail();
  check_output(named, about);
  if (::fcntl(file.get(), F_SETFL, append) != 0) named.fail();
  if (how == Output::replace && S_ISREG(about.st_mode) && ::ftruncate(file.get(), 0) != 0)
    named.fail();
  return file;
}

void write_output(const std::filesystem::path& path, std::string_view text, const char* operation) {
  const Fd file = open_output(path, Output::replace, operation);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Named{path, operation}.fail();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string read_file(const std::filesystem::path& path, std::size_t most, const char* operation) {
  const Named named{path, operation};
  check_name(named);
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) named.fail();
  check_regular(named, about);
  return read_whole(named, file, most);
}

std::optional<std::string> find_own_file(const std::filesystem::path& path, std::size_t most,
                                         const char* operation) {
  const Named named{path, operation};
  check_name(named);
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) refuse_to_open(named, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) named.fail();
  check_regular(named, about);
  check_own(named, about);
  return read_whole(named, file, most);
}

}  // namespace weft::os
