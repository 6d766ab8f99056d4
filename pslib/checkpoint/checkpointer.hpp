// Writes a shard's part of checkpoints in the background.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/os/fork_mark.hpp"
#include "pslib/checkpoint/checkpoint.hpp"
#include "weft/checkpoint.hpp"

namespace weft::pslib {

/// Writes on a thread of its own, one checkpoint at a time; the next one waits. On a failure, calls
/// `failed` on that thread and removes what was written of that version; the job goes on. The
/// destructor waits for the writer. Not thread-safe.
class Checkpointer {
 public:
  using Failed = std::function<void(const std::string& why)>;
  /// Writes a shard's file as `name` in `folder`.
  using WriteShard = std::function<void(const os::Folder& folder, const std::string& name)>;

  Checkpointer(CheckpointOptions options, std::string table, std::size_t server,
               std::size_t servers, Failed failed);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Copies the arrays, then returns while they are written. The copy's memory, as large as the
  /// arrays, is kept for the next call.
  void save(Manifest manifest, std::span<const StoredArray> arrays);
  /// save() in two steps, for callers that need no copy: wait() for the last writer, then start()
  /// the next.
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
  /// Versions that this server failed to write, newest last; other servers may still write theirs.
  std::vector<std::uint64_t> given_up_;
  const os::ForkMark fork_mark_;
  std::jthread writer_;
};

}  // namespace weft::pslib
