// A server's file of a checkpoint: named arrays in the safetensors layout.
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
#include "weft/tensor.hpp"

namespace weft::pslib {

/// The types of DType, in its order, then others.
enum class StoredType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8, boolean, u32, u64 };
constexpr StoredType stored(DType dtype) noexcept { return static_cast<StoredType>(dtype); }

/// Name, type and shape of an array: little-endian, row-major.
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

/// The manifest's record of a file.
struct FileSeal {
  std::uint64_t bytes = 0;
  std::string header;  ///< digest of length and header, which holds the data's digests

  friend bool operator==(const FileSeal&, const FileSeal&) = default;
};

/// Writes a file piece by piece, and the header's digests at the end. Throws Error(system). Not
/// thread-safe.
class ShardFileWriter {
 public:
  ShardFileWriter(const os::Folder& folder, const std::string& name, std::vector<ArraySpec> arrays,
                  const Failpoint& failpoint);
  ~ShardFileWriter();

  /// Appends the next bytes of the arrays, which lie back to back in their order.
  void append(std::span<const std::byte> bytes);
  /// Requires that all arrays are complete.
  void commit();

 private:
  class BlockDigests;

  const std::vector<ArraySpec> arrays_;
  DurableFile file_;
  std::unique_ptr<BlockDigests> digests_;
};

/// Writes a whole file. Throws Error(system).
void write_shard_file(const os::Folder& folder, const std::string& name,
                      std::span<const StoredArray> arrays, const Failpoint& failpoint = {});

/// A file to read. Const members may be called concurrently.
class ShardFile {
 public:
  struct Entry {
    std::uint64_t offset = 0;  ///< in the file
    StoredType type = StoredType::f32;
    std::vector<std::uint64_t> shape{};
    std::int64_t elements = 0;
  };

  /// Reads the header and the file's size. Throws Error: mismatch if this is not a shard file, if
  /// the file is truncated or too long, or if its arrays do not lie back to back; system.
  ShardFile(const os::Folder& folder, const std::string& name);

  const std::filesystem::path& path() const noexcept { return path_; }
  const FileSeal& seal() const noexcept { return seal_; }
  const std::map<std::string, Entry>& arrays() const noexcept { return arrays_; }
  /// Throws Error(mismatch) if there is no array of this name, type and shape.
  const Entry& array(const ArraySpec& spec) const;
  /// Number of blocks with a digest; a block has 1 MiB.
  std::size_t blocks() const noexcept { return blocks_.size(); }
  /// Reads and verifies `count` blocks. Throws Error(mismatch) with the offset of the first block
  /// that differs from what was written.
  void verify(std::size_t first, std::size_t count) const;
  /// Reads elements of an array from `first` on, after verifying blocks that no call has verified.
  /// Requires that the array has them. Throws Error: system, mismatch.
  void read(const Entry& entry, std::int64_t first, std::span<std::byte> to) const;

 private:
  void read_header();
  void check_places() const;
  void verify_block(std::size_t block, std::vector<std::byte>& buffer) const;

  std::filesystem::path path_;
  os::Fd file_;
  FileSeal seal_;
  std::uint64_t data_ = 0;  // offset of the data in the file
  std::vector<std::string> blocks_;
  std::unique_ptr<std::atomic<bool>[]> is_verified_;  // by block
  std::map<std::string, Entry> arrays_;
};

}  // namespace weft::pslib
