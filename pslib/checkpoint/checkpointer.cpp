#include "pslib/checkpoint/checkpointer.hpp"

#include <algorithm>
#include <utility>

namespace weft::pslib {

Checkpointer::Checkpointer(std::filesystem::path folder, std::size_t server, std::size_t servers,
                           Failed failed)
    : folder_(std::move(folder)), server_(server), servers_(servers), failed_(std::move(failed)) {}

Checkpointer::~Checkpointer() = default;

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
  start(std::move(manifest), [copies = std::move(copies)](const std::filesystem::path& path) {
    write_shard_file(path, copies);
  });
}

void Checkpointer::start(Manifest manifest, WriteShard write) {
  writer_ = std::jthread([this, manifest = std::move(manifest), shard = std::move(write)] {
    try {
      this->write(manifest, shard);
    } catch (const std::exception& error) {
      failed_(error.what());
    }
  });
}

void Checkpointer::write(const Manifest& manifest, const WriteShard& shard) const {
  std::filesystem::create_directories(version_folder(folder_, manifest.version));
  sync_folder(folder_);
  shard(shard_path(folder_, manifest.version, server_, servers_));
  seal_checkpoint(folder_, manifest, server_, servers_);
}

}  // namespace weft::pslib
