// Opening what lies in a folder that others may write to.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/os/fd.hpp"

namespace weft::os {

/// A folder held open by a descriptor. Everything below it is opened by one name and relative to
/// that descriptor: symbolic links are refused, and so are folders of other users (root's are
/// taken). An error is Error(system) with the operation and the path. Copies share the descriptor.
/// Thread-safety: const members may be called concurrently.
class Folder {
 public:
  /// The folder at `path`, which the user names: links on the way to it are followed.
  static Folder open(const std::filesystem::path& path, const char* operation);
  /// The same; none if it is missing.
  static std::optional<Folder> find_at(const std::filesystem::path& path, const char* operation);
  /// The same; creates what is missing with mode 0700, durably.
  static Folder make(const std::filesystem::path& path, const char* operation);

  const std::filesystem::path& path() const noexcept { return path_; }
  const char* operation() const noexcept { return operation_; }
  int fd() const noexcept { return fd_->get(); }

  /// A folder below.
  Folder below(const std::string& name) const;
  /// The same; none if there is nothing of that name.
  std::optional<Folder> find(const std::string& name) const;
  /// The same; creates it with mode 0700 if it is missing. It is durable afterwards.
  Folder make_below(const std::string& name) const;

  /// Opens a regular file without waiting for anybody (a FIFO is refused).
  Fd read(const std::string& name) const;
  /// The same; none if there is nothing of that name.
  std::optional<Fd> find_file(const std::string& name) const;
  /// Whether there is anything of that name, be it a link.
  bool has(const std::string& name) const;

  /// Everything in it but "." and "..", in no order.
  std::vector<std::string> names() const;
  /// Removes what has that name, a folder with all in it; links are removed, not followed. Missing
  /// is fine.
  void remove(const std::string& name) const;
  /// Renames within the folder; false if `from` is missing. An empty folder or a file at `to` is
  /// replaced.
  bool rename(const std::string& from, const std::string& to) const;
  /// Names and entries are durable.
  void sync() const;

  /// Throws Error(system) for what is no name of a file in a folder.
  void check_name(const std::string& name) const;
  /// Throws Error(system): the path of `name`, and why.
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

 private:
  Folder(std::filesystem::path path, const char* operation, Fd fd);
  Fd try_open(const std::string& name, int flags) const;
  [[noreturn]] void fail(const std::string& name, int error) const;
  void check_owner() const;
  void remove(const std::string& name, int depth) const;

  std::filesystem::path path_;
  const char* operation_;
  std::shared_ptr<const Fd> fd_;
};

/// A new file under a random name ("NAME.<16 digits>.tmp"), which gets its own by publish() and is
/// removed if it does not. Errors as a Folder's. Thread-safety: one thread at a time.
class Draft {
 public:
  /// `mode` goes through the process's umask.
  Draft(Folder folder, std::string name, mode_t mode = 0600);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const Folder& folder() const noexcept { return folder_; }
  void write(std::span<const std::byte> bytes);
  /// In place of as many bytes at the start.
  void write_start(std::span<const std::byte> bytes);
  void sync();
  /// Replaces what has the name, without following a link.
  void publish();
  /// The same unless something has the name.
  void publish_if_none();

 private:
  Folder folder_;
  const std::string name_;
  std::string draft_;  // empty: it has its name
  Fd file_;
};

/// 16 hexadecimal digits that nobody can guess.
std::string random_digits();

}  // namespace weft::os
