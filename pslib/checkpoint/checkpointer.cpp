#include "pslib/checkpoint/checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pslib/checkpoint/checkpoint_folder.hpp"
#include "pslib/checkpoint/upkeep.hpp"

namespace weft::pslib {
namespace {

// Servers of an asynchronous table may be this many versions behind one that fails.
constexpr std::size_t kRemembered = 64;

}  // namespace

Checkpointer::Checkpointer(CheckpointOptions options, std::string table, std::size_t server,
                           std::size_t servers, Failed failed)
    : options_(std::move(options)),
      table_(std::move(table)),
      server_(server),
      servers_(servers),
      failed_(std::move(failed)) {}

Checkpointer::~Checkpointer() {
  // A fork has no writer, and the folder is the rank's.
  if (fork_mark_.forked()) {
    if (writer_.joinable()) writer_.detach();
    return;
  }
  wait();
  if (given_up_.empty()) return;
  try {
    if (const auto table = find_folder(options_, table_)) discard_given_up(*table);
  } catch (const std::exception& error) {
    failed_(fmt::format("unfinished checkpoints were not removed: {}", error.what()));
  }
}

void Checkpointer::wait() {
  if (writer_.joinable()) writer_.join();
}

void Checkpointer::save(Manifest manifest, std::span<const StoredArray> arrays) {
  wait();
  std::size_t elements = 0;
  for (const StoredArray& array : arrays) elements += array.values.size();
  copy_.resize(elements);
  std::vector<StoredArray> copies;
  auto to = copy_.begin();
  for (const StoredArray& array : arrays) {
    const auto end = std::ranges::copy(array.values, to).out;
    copies.push_back({array.name, {to, end}});
    to = end;
  }
  start(std::move(manifest),
        [copies = std::move(copies)](const os::Folder& folder, const std::string& name) {
          write_shard_file(folder, name, copies);
        });
}

void Checkpointer::start(Manifest manifest, WriteShard write) {
  writer_ = std::jthread([this, manifest = std::move(manifest), shard = std::move(write)] {
    try {
      this->write(manifest, shard);
    } catch (const std::exception& error) {
      failed_(fmt::format("checkpoint {} was not written: {}", manifest.version, error.what()));
    }
  });
}

void Checkpointer::write(const Manifest& manifest, const WriteShard& shard) {
  const os::Folder table = make_folder(options_, table_);
  // Leftovers of other jobs must not prevent saving.
  try {
    remove_leftovers(table);
    discard_given_up(table);
  } catch (const std::exception& error) {
    failed_(fmt::format("the rest of older checkpoints was not removed: {}", error.what()));
  }
  bool is_sealed = false;
  try {
    const os::Folder version = table.make_below(version_name(manifest.version));
    shard(version, shard_name(server_, servers_));
    is_sealed = seal_checkpoint(table, version, manifest, servers_);
  } catch (...) {
    give_up(table, manifest.version);
    throw;
  }
  if (!is_sealed) return;
  // The checkpoint is complete: a failure from here on only concerns older ones.
  try {
    keep_newest(table, options_.keep);
  } catch (const std::exception& error) {
    failed_(fmt::format("checkpoint {} was written, but older ones were not removed: {}",
                        manifest.version, error.what()));
  }
}

// Without this server's part the version will never be complete, unless another server has sealed
// it.
void Checkpointer::give_up(const os::Folder& table, std::uint64_t version) noexcept {
  try {
    if (given_up_.size() == kRemembered) given_up_.erase(given_up_.begin());
    given_up_.push_back(version);
  } catch (const std::bad_alloc&) {
    return;
  }
  discard_given_up(table);
}

void Checkpointer::discard_given_up(const os::Folder& table) noexcept {
  for (const std::uint64_t version : given_up_) {
    try {
      const auto folder = table.find(version_name(version));
      if (folder && !folder->has(kManifestName)) discard(table, version);
    } catch (const std::exception&) {
      continue;  // retried with the next checkpoint; logged already
    }
  }
}

}  // namespace weft::pslib
