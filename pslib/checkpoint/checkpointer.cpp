#include "pslib/checkpoint/checkpointer.hpp"

#include <algorithm>
#include <utility>

namespace weft::pslib {

Checkpointer::Checkpointer(std::filesystem::path folder, std::size_t server, std::size_t servers,
                           Failed failed)
    : folder_(std::move(folder)), server_(server), servers_(servers), failed_(std::move(failed)) {}

Checkpointer::~Checkpointer() = default;

void Checkpointer::save(Manifest manifest, std::span<const StoredArray> arrays) {
  if (writer_.joinable()) writer_.join();
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
  writer_ = std::jthread([this, manifest = std::move(manifest), copies = std::move(copies)] {
    try {
      write(manifest, copies);
    } catch (const std::exception& error) {
      failed_(error.what());
    }
  });
}

void Checkpointer::write(const Manifest& manifest, std::span<const StoredArray> arrays) const {
  std::filesystem::create_directories(version_folder(folder_, manifest.version));
  sync_folder(folder_);
  write_shard_file(shard_path(folder_, manifest.version, server_, servers_), arrays);
  seal_checkpoint(folder_, manifest, server_, servers_);
}

}  // namespace weft::pslib
