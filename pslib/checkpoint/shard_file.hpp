// A file of a checkpoint: named arrays in the layout of safetensors.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pslib/checkpoint/durable_file.hpp"

namespace weft::pslib {

enum class StoredType : std::uint8_t { f32, u32, u64 };

/// Of little-endian elements, the last dimension's side by side.
struct ArraySpec {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::uint64_t> shape{};

  std::uint64_t bytes() const noexcept;
};

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

/// Writes a file piece by piece, and its header's digests when all are there. Throws Error(system).
/// Thread-safety: one thread at a time.
class ShardFileWriter {
 public:
  ShardFileWriter(const os::Folder& folder, const std::string& name, std::vector<ArraySpec> arrays,
                  const Failpoint& failpoint);
  ~ShardFileWriter();

  /// The next bytes of the arrays, which lie one behind the other in their order here.
  void append(std::span<const std::byte> bytes);
  /// Once all arrays are there.
  void commit();

 private:
  class BlockDigests;

  const std::vector<ArraySpec> arrays_;
  DurableFile file_;
  std::unique_ptr<BlockDigests> digests_;
};

/// Throws Error(system).
void write_shard_file(const os::Folder& folder, const std::string& name,
                      std::span<const StoredArray> arrays, const Failpoint& failpoint = {});

/// One to read. Thread-safety: const members may be called concurrently.
class ShardFile {
 public:
  struct Entry {
    std::uint64_t offset = 0;  ///< in the file
    StoredType type = StoredType::f32;
    std::vector<std::uint64_t> shape{};
    std::int64_t elements = 0;
  };

  /// Looks at the header and the file's size. Throws Error: mismatch for what is not such a file,
  /// is cut off or longer than it says, or whose arrays do not lie one behind the other; system.
  ShardFile(const os::Folder& folder, const std::string& name);

  const std::filesystem::path& path() const noexcept { return path_; }
  const FileSeal& seal() const noexcept { return seal_; }
  const std::map<std::string, Entry>& arrays() const noexcept { return arrays_; }
  /// Throws Error(mismatch) where there is no array of this name, type and shape.
  const Entry& array(const ArraySpec& spec) const;
  /// Those of which there are digests, of a MiB each.
  std::size_t blocks() const noexcept { return blocks_.size(); }
  /// Reads so many of them. Throws Error(mismatch) with the offset of the first block that is not
  /// what was written.
  void verify(std::size_t first, std::size_t count) const;
  /// Elements from `first` on of an array that has them. Blocks that no call has verified yet are.
  /// Throws Error(system, mismatch).
  void read(const Entry& entry, std::int64_t first, std::span<std::byte> to) const;

 private:
  void read_header();
  void check_places() const;
  void verify_block(std::size_t block, std::vector<std::byte>& buffer) const;

  std::filesystem::path path_;
  os::Fd file_;
  FileSeal seal_;
  std::uint64_t data_ = 0;  // where it begins
  std::vector<std::string> blocks_;
  std::unique_ptr<std::atomic<bool>[]> is_verified_;  // by block
  std::map<std::string, Entry> arrays_;
};

}  // namespace weft::pslib
