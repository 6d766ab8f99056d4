// A shard's part in checkpoints, written while it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"
#include "weft/checkpoint.hpp"

namespace weft::pslib {

/// Writes on a thread of its own; one at a time, the next waits for it. What goes wrong is told to
/// `failed` on that thread, what was written of that version is removed, and the job goes on.
/// Destruction waits for the writer. Thread-safety: one thread at a time.
class Checkpointer {
 public:
  using Failed = std::function<void(const std::string& why)>;
  /// Writes a shard's file under its name in a folder.
  using WriteShard = std::function<void(const os::Folder& folder, const std::string& name)>;

  Checkpointer(CheckpointOptions options, std::string table, std::size_t server,
               std::size_t servers, Failed failed);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Returns once all is copied (memory: as much, kept for the next time).
  void save(Manifest manifest, std::span<const StoredArray> arrays);
  /// The same in two steps, for who needs no copy: waits for the last writer; begins the next one.
  void wait();
  void start(Manifest manifest, WriteShard write);

 private:
  void write(const Manifest& manifest, const WriteShard& shard);
  void give_up(const os::Folder& table, std::uint64_t version) noexcept;
  void discard_given_up(const os::Folder& table) noexcept;

  const CheckpointOptions options_;
  const std::string table_;
  const std::size_t server_;
  const std::size_t servers_;
  const Failed failed_;
  std::vector<float> copy_;
  /// Versions that this server could not write, the newest last: others may still write theirs.
  std::vector<std::uint64_t> given_up_;
  std::jthread writer_;
};

}  // namespace weft::pslib
