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

/// Copies what is to be saved (memory: once the shard's values and states, kept for the next time)
/// and writes the copy on a thread of its own; one at a time, the next waits for it. What goes
/// wrong is told to `failed` on that thread, and the job goes on. Destruction waits for the writer.
/// Thread-safety: one thread at a time.
class Checkpointer {
 public:
  using Failed = std::function<void(const std::string& why)>;

  Checkpointer(std::filesystem::path folder, std::size_t server, std::size_t servers,
               Failed failed);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Returns once all is copied.
  void save(Manifest manifest, std::span<const StoredArray> arrays);

 private:
  void write(const Manifest& manifest, std::span<const StoredArray> arrays) const;

  const std::filesystem::path folder_;
  const std::size_t server_;
  const std::size_t servers_;
  const Failed failed_;
  std::vector<float> copy_;
  std::jthread writer_;
};

}  // namespace weft::pslib
