// A shard's part in checkpoints, written while it goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"

namespace weft::pslib {

/// Writes on a thread of its own; one at a time, the next waits for it. What goes wrong is told to
/// `failed` on that thread, and the job goes on. Destruction waits for the writer.
/// Thread-safety: one thread at a time.
class Checkpointer {
 public:
  using Failed = std::function<void(const std::string& why)>;
  /// Writes a shard's file under its name.
  using WriteShard = std::function<void(const std::filesystem::path& path)>;

  Checkpointer(std::filesystem::path folder, std::size_t server, std::size_t servers,
               Failed failed);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Returns once all is copied (memory: as much, kept for the next time).
  void save(Manifest manifest, std::span<const StoredArray> arrays);
  /// The same in two steps, for who needs no copy: waits for the last writer; begins the next one.
  void wait();
  void start(Manifest manifest, WriteShard write);

 private:
  void write(const Manifest& manifest, const WriteShard& shard) const;

  const std::filesystem::path folder_;
  const std::size_t server_;
  const std::size_t servers_;
  const Failed failed_;
  std::vector<float> copy_;
  std::jthread writer_;
};

}  // namespace weft::pslib
