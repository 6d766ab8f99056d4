#include "base/os/folder.hpp"

#include <dirent.h>
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

constexpr mode_t kOnlyOwner = 0700;
constexpr int kDeepest = 16;  // nesting of folders that remove() descends into

bool is_link(int folder, const std::string& name) {
  struct stat about {};
  return ::fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(about.st_mode);
}

}  // namespace

Folder::Folder(std::filesystem::path path, const char* operation, Fd fd)
    : path_(std::move(path)),
      operation_(operation),
      fd_(std::make_shared<const Fd>(std::move(fd))) {}

std::optional<Folder> Folder::find_at(const std::filesystem::path& path, const char* operation) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::nullopt;
  if (!fd) throw_system_error(operation, path.native(), errno);
  return Folder(path, operation, std::move(fd));
}

Folder Folder::open(const std::filesystem::path& path, const char* operation) {
  auto found = find_at(path, operation);
  if (!found) throw_system_error(operation, path.native(), ENOENT);
  return *std::move(found);
}

Folder Folder::make(const std::filesystem::path& path, const char* operation) {
  if (auto found = find_at(path, operation)) return *std::move(found);
  const std::filesystem::path parent = path.parent_path();
  if (!path.has_filename()) return make(parent, operation);  // "a/b/"
  const Folder above = make(parent.empty() ? "." : parent, operation);
  if (::mkdirat(above.fd(), path.filename().c_str(), kOnlyOwner) != 0 && errno != EEXIST)
    throw_system_error(operation, path.native(), errno);
  above.sync();
  return open(path, operation);
}

void Folder::refuse(const std::string& name, const std::string& why) const {
  ErrorDetail detail;
  detail.code = Code::system;
  detail.operation = operation_;
  detail.message = fmt::format("{}: {}", (path_ / name).native(), why);
  detail.hint = "remove it, or name a folder that only this user may write to";
  throw Error(std::move(detail));
}

void Folder::fail(const std::string& name, int error) const {
  if ((error == ELOOP || error == ENOTDIR) && is_link(fd(), name))
    refuse(name, "it is a symbolic link, which is not followed here");
  throw_system_error(operation_, (path_ / name).native(), error);
}

void Folder::check_name(const std::string& name) const {
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
      name.find('\0') != name.npos)
    refuse(name, "this is no name of a file in a folder");
}

void Folder::check_owner() const {
  struct stat about {};
  if (::fstat(fd(), &about) != 0) throw_system_error(operation_, path_.native(), errno);
  if (about.st_uid == ::geteuid() || about.st_uid == 0) return;
  ErrorDetail detail;
  detail.code = Code::system;
  detail.operation = operation_;
  detail.message = fmt::format("{}: the folder belongs to user {}, this process is user {}'s",
                               path_.native(), about.st_uid, ::geteuid());
  detail.hint = "change its owner if its content is to be trusted";
  throw Error(std::move(detail));
}

Fd Folder::try_open(const std::string& name, int flags) const {
  check_name(name);
  return Fd(::openat(fd(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

std::optional<Folder> Folder::find(const std::string& name) const {
  Fd found = try_open(name, O_RDONLY | O_DIRECTORY);
  if (!found && errno == ENOENT) return std::nullopt;
  if (!found) fail(name, errno);
  Folder folder(path_ / name, operation_, std::move(found));
  folder.check_owner();
  return folder;
}

Folder Folder::below(const std::string& name) const {
  auto found = find(name);
  if (!found) fail(name, ENOENT);
  return *std::move(found);
}

Folder Folder::make_below(const std::string& name) const {
  check_name(name);
  if (::mkdirat(fd(), name.c_str(), kOnlyOwner) != 0 && errno != EEXIST) fail(name, errno);
  sync();  // makes the folder durable even if another process made it
  return below(name);
}

std::optional<Fd> Folder::find_file(const std::string& name) const {
  Fd file = try_open(name, O_RDONLY | O_NOCTTY);
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) fail(name, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) fail(name, errno);
  if (!S_ISREG(about.st_mode)) refuse(name, "it is no regular file");
  return file;
}

Fd Folder::read(const std::string& name) const {
  auto found = find_file(name);
  if (!found) fail(name, ENOENT);
  return *std::move(found);
}

bool Folder::has(const std::string& name) const {
  check_name(name);
  struct stat about {};
  if (::fstatat(fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != ENOENT) fail(name, errno);
  return false;
}

std::vector<std::string> Folder::names() const {
  // Opened anew, since reading moves the offset of an open file description.
  Fd copy(::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) throw_system_error(operation_, path_.native(), errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(copy.get()), ::closedir);
  if (!entries) throw_system_error(operation_, path_.native(), errno);
  (void)copy.release();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) throw_system_error(operation_, path_.native(), errno);
  return names;
}

void Folder::remove(const std::string& name) const { remove(name, 0); }

void Folder::remove(const std::string& name, int depth) const {
  check_name(name);
  if (::unlinkat(fd(), name.c_str(), 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR && errno != EPERM) fail(name, errno);
  if (depth == kDeepest) refuse(name, "too many folders within folders");
  Fd inside = try_open(name, O_RDONLY | O_DIRECTORY);
  if (!inside && errno == ENOENT) return;
  if (!inside) fail(name, errno);
  const Folder folder(path_ / name, operation_, std::move(inside));
  for (const std::string& each : folder.names()) folder.remove(each, depth + 1);
  if (::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail(name, errno);
}

bool Folder::rename(const std::string& from, const std::string& to) const {
  check_name(from);
  check_name(to);
  if (::renameat(fd(), from.c_str(), fd(), to.c_str()) == 0) return true;
  if (errno != ENOENT) fail(from, errno);
  return false;
}

void Folder::sync() const {
  if (::fsync(fd()) != 0) throw_system_error(operation_, path_.native(), errno);
}

}  // namespace weft::os
