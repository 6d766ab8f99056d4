// Files that are either complete or absent after a crash, and errors for damaged files.
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

/// Called before each step of writing with the step's name; a test stops the writer there.
using Failpoint = std::function<void(std::string_view step)>;

/// Writes under a random name; commit() makes the file durable and gives it its own name. Without
/// commit() the destructor removes the file. Throws Error(system) with the path. Not thread-safe.
class DurableFile {
 public:
  DurableFile(const os::Folder& folder, const std::string& name, const Failpoint& failpoint);

  void append(std::span<const std::byte> bytes);
  /// Overwrites the first bytes.size() bytes of the file.
  void replace_start(std::span<const std::byte> bytes);
  void commit();

 private:
  void step(std::string_view name) const {
    if (failpoint_) failpoint_(name);
  }

  const Failpoint failpoint_;
  os::Draft draft_;
};

/// XXH3-64 as 16 hexadecimal digits.
std::string digest(std::span<const std::byte> bytes);

/// Throws Error(mismatch) with the file, the offset of the first wrong byte, and the reason.
[[noreturn]] void refuse_file(const std::filesystem::path& path, std::uint64_t offset,
                              const std::string& why);

/// Reads `to.size()` bytes at `offset`. Throws Error: system, mismatch (the file ends before).
void read_exactly(const os::Fd& file, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<std::byte> to);

/// Size of the file. Throws Error(system).
std::uint64_t file_bytes(const os::Fd& file, const std::filesystem::path& path);

}  // namespace weft::pslib
