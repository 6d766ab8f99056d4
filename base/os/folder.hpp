// Folders to which other users may write, opened safely, and drafts of files in them.
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

/// A folder held open by a descriptor. Everything below it is opened by one name relative to that
/// descriptor. Symbolic links are refused, and so are folders of other users (except root). Errors
/// are Error(system) with the operation and the path. Copies share the descriptor. Thread-safety:
/// const members may be called concurrently.
class Folder {
 public:
  /// Opens the folder at `path`, which the user named: links on the way to it are followed.
  static Folder open(const std::filesystem::path& path, const char* operation);
  /// The same; nullopt if the folder is missing.
  static std::optional<Folder> find_at(const std::filesystem::path& path, const char* operation);
  /// The same; creates missing folders durably, with mode 0700.
  static Folder make(const std::filesystem::path& path, const char* operation);

  const std::filesystem::path& path() const noexcept { return path_; }
  const char* operation() const noexcept { return operation_; }
  int fd() const noexcept { return fd_->get(); }

  /// Opens the subfolder `name`.
  Folder below(const std::string& name) const;
  /// The same; nullopt if nothing has that name.
  std::optional<Folder> find(const std::string& name) const;
  /// The same; creates it with mode 0700 if it is missing. The subfolder is durable afterwards.
  Folder make_below(const std::string& name) const;

  /// Opens the regular file `name` for reading. Never blocks: FIFOs are refused.
  Fd read(const std::string& name) const;
  /// The same; nullopt if nothing has that name.
  std::optional<Fd> find_file(const std::string& name) const;
  /// True if anything has that name, even a link.
  bool has(const std::string& name) const;

  /// The names of all entries except "." and "..", in no order.
  std::vector<std::string> names() const;
  /// Removes the entry `name`, a folder with its content. Links are removed, not followed. A
  /// missing entry is no error.
  void remove(const std::string& name) const;
  /// Renames an entry within the folder; false if `from` is missing. Replaces an empty folder or a
  /// file at `to`.
  bool rename(const std::string& from, const std::string& to) const;
  /// Makes names and entries of the folder durable.
  void sync() const;

  /// Throws Error(system) if `name` can't be a file name.
  void check_name(const std::string& name) const;
  /// Throws Error(system) with the path of `name` and `why`.
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

/// A new file with a random name ("NAME.<16 digits>.tmp"). publish() gives it its final name; the
/// destructor removes it otherwise. Errors as for Folder. Thread-safety: one thread at a time.
class Draft {
 public:
  /// The process's umask applies to `mode`.
  Draft(Folder folder, std::string name, mode_t mode = 0600);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const Folder& folder() const noexcept { return folder_; }
  void write(std::span<const std::byte> bytes);
  /// Overwrites the start of the file with `bytes`.
  void write_start(std::span<const std::byte> bytes);
  void sync();
  /// Renames the draft to its final name, replacing an existing entry without following a link.
  void publish();
  /// The same, unless an entry has the name already.
  void publish_if_none();

 private:
  Folder folder_;
  const std::string name_;
  std::string draft_;  // empty: published
  Fd file_;
};

/// 16 unpredictable hexadecimal digits.
std::string random_digits();

}  // namespace weft::os
