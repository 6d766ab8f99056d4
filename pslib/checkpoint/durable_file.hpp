// A file that is there whole after a crash, or not at all; and what damaged files are refused with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft::pslib {

/// Called with a word for each step of writing, before it: what a test stops the writer at.
using Failpoint = std::function<void(std::string_view step)>;

/// Written as "<path>.<writer>.tmp"; commit() makes it durable and gives it its name. Without it
/// the temporary stays, which readers don't look at. Throws Error(system) naming the path.
/// Thread-safety: one thread at a time.
class DurableFile {
 public:
  /// Several writers may write the same file at one time, each under a number of its own.
  DurableFile(std::filesystem::path path, std::size_t writer, const Failpoint& failpoint);

  void append(std::span<const std::byte> bytes);
  /// In place of as many bytes at the file's start.
  void replace_start(std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  const Failpoint& failpoint_;
  os::Fd file_;
};

/// Names and contents of a folder's entries are durable. Throws Error(system).
void sync_folder(const std::filesystem::path& folder);

/// XXH3, 64 bits, as 16 hexadecimal digits.
std::string digest(std::span<const std::byte> bytes);

/// Throws Error(mismatch): the file, the byte from which on it is wrong, and why.
[[noreturn]] void refuse_file(const std::filesystem::path& path, std::uint64_t offset,
                              const std::string& why);

/// Reads `to.size()` bytes from `offset`. Throws Error: system, mismatch (the file ends before).
void read_exactly(const os::Fd& file, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<std::byte> to);

/// Throws Error(system).
os::Fd open_to_read(const std::filesystem::path& path);
std::uint64_t file_bytes(const os::Fd& file, const std::filesystem::path& path);

}  // namespace weft::pslib
