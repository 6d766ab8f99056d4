// A file of a checkpoint: named arrays of f32 in the layout of safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pslib/checkpoint/durable_file.hpp"

namespace weft::pslib {

struct StoredArray {
  std::string name;
  std::span<const float> values;
};

/// What a manifest says of a file.
struct FileSeal {
  std::uint64_t bytes = 0;
  std::string header;  ///< digest of the length and the header, in which those of the data stand

  friend bool operator==(const FileSeal&, const FileSeal&) = default;
};

/// Throws Error(system).
void write_shard_file(const std::filesystem::path& path, std::span<const StoredArray> arrays,
                      const Failpoint& failpoint = {});

/// One to read. Thread-safety: const members may be called concurrently.
class ShardFile {
 public:
  struct Entry {
    std::uint64_t offset = 0;  ///< in the file
    std::int64_t elements = 0;
  };

  /// Looks at the header and the file's size. Throws Error: mismatch for what is not such a file,
  /// is cut off or longer than it says; system.
  explicit ShardFile(std::filesystem::path path);

  const FileSeal& seal() const noexcept { return seal_; }
  const std::map<std::string, Entry>& arrays() const noexcept { return arrays_; }
  /// Reads all of it. Throws Error(mismatch) with the offset of the first block that is not what
  /// was written.
  void verify() const;
  /// Elements from `first` on of an array that has them. Throws Error(system, mismatch).
  void read(const Entry& entry, std::int64_t first, std::span<float> to) const;

 private:
  void read_header();

  std::filesystem::path path_;
  os::Fd file_;
  FileSeal seal_;
  std::uint64_t data_ = 0;  // where it begins
  std::vector<std::string> blocks_;
  std::map<std::string, Entry> arrays_;
};

}  // namespace weft::pslib
