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
#include "base/os/folder.hpp"

namespace weft::pslib {

/// Called with a word for each step of writing, before it: what a test stops the writer at.
using Failpoint = std::function<void(std::string_view step)>;

/// Written under a random name; commit() makes it durable and gives it its own. Without it the file
/// is removed. Throws Error(system) naming the path.
/// Thread-safety: one thread at a time.
class DurableFile {
 public:
  DurableFile(const os::Folder& folder, const std::string& name, const Failpoint& failpoint);

  void append(std::span<const std::byte> bytes);
  /// In place of as many bytes at the file's start.
  void replace_start(std::span<const std::byte> bytes);
  void commit();

 private:
  void step(std::string_view name) const {
    if (failpoint_) failpoint_(name);
  }

  const Failpoint& failpoint_;
  os::Draft draft_;
};

/// XXH3, 64 bits, as 16 hexadecimal digits.
std::string digest(std::span<const std::byte> bytes);

/// Throws Error(mismatch): the file, the byte from which on it is wrong, and why.
[[noreturn]] void refuse_file(const std::filesystem::path& path, std::uint64_t offset,
                              const std::string& why);

/// Reads `to.size()` bytes from `offset`. Throws Error: system, mismatch (the file ends before).
void read_exactly(const os::Fd& file, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<std::byte> to);

/// Throws Error(system).
std::uint64_t file_bytes(const os::Fd& file, const std::filesystem::path& path);

}  // namespace weft::pslib
