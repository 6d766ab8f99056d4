// Opens a large group within a host, with one message of each rank and one to each.
//
// Every rank tells the first where its area lies. Once all have come, the first writes the places
// of all areas into a block of its own, the directory, and tells everybody where that lies. A first
// rank that waits for long tells those that have come which rank is missing.
#include <algorithm>
#include <cstring>

#include "runtime/collective/collective_table.hpp"

namespace weft::detail {

bool CollectiveTable::opens_by_directory(const CollectiveGroup& group) noexcept {
  return group.area().bytes > 0 && group.size() > kFew;
}

p2p::OwnedBlock CollectiveTable::make_directory(const CollectiveGroup& group) const {
  if (!opens_by_directory(group) || group.rank() != 0) return {};
  return {local_.control, static_cast<std::size_t>(group.size()) * sizeof(p2p::MemoryRef)};
}

void CollectiveTable::enter_directory(std::span<const int> ranks, std::uint64_t id,
                                      const CollectiveMessage& opened) {
  local_.progress.run([&] {
    std::vector<std::uint32_t> chunks{opened.area.chunk};
    std::vector<Letter> letters;
    {
      const std::lock_guard lock(mutex_);
      Group& group = groups_[id];
      if (group.directory) chunks.push_back(group.directory.block().chunk);
      group.is_shared = true;
      fill_directory(group, id, letters);
    }
    // Most areas lie in chunks that are known already.
    for (const int rank : ranks)
      for (const std::uint32_t chunk : chunks)
        if (rank != local_.rank) (void)mesh_.share(mesh_.peer(rank), chunk);
    send(letters);
    if (ranks[0] != local_.rank) mesh_.send(mesh_.peer(ranks[0]), opened);
  });
}

void CollectiveTable::fill_directory(Group& group, std::uint64_t id,
                                     std::vector<Letter>& letters) const {
  if (!group.directory || !group.is_shared || group.directory_place.bytes > 0 ||
      cannot_open(group) || absent_rank(group) >= 0)
    return;
  const std::span<const int> ranks = group.here->ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r)
    std::memcpy(group.directory.data() + r * sizeof(p2p::MemoryRef), &group.areas.at(ranks[r]),
                sizeof(p2p::MemoryRef));
  const p2p::Block& block = group.directory.block();
  group.directory_place = {block.chunk, block.offset, ranks.size() * sizeof(p2p::MemoryRef)};
  CollectiveMessage message = opening(group, id, CollectiveMessage::kDirectory);
  message.area = group.directory_place;
  for (const int rank : ranks) letters.push_back({rank, message});
}

int CollectiveTable::absent_rank(const Group& group) const {
  const std::span<const int> ranks = group.here->ranks();
  if (ranks[0] != local_.rank) {
    if (!group.areas.contains(ranks[0])) return ranks[0];
    const auto told = group.missing.find(ranks[0]);
    return told == group.missing.end() ? -1 : told->second;
  }
  const auto absent =
      std::ranges::find_if(ranks, [&](int rank) { return !group.areas.contains(rank); });
  return absent == ranks.end() ? -1 : *absent;
}

void CollectiveTable::tell_absent(Group& group, std::uint64_t id,
                                  std::vector<Letter>& letters) const {
  const std::span<const int> ranks = group.here->ranks();
  if (ranks[0] != local_.rank || group.directory_place.bytes > 0) return;
  group.believed_missing = absent_rank(group);
  CollectiveMessage message = opening(group, id, CollectiveMessage::kAbsent);
  message.missing = group.believed_missing;
  for (const int rank : ranks)
    if (group.areas.contains(rank)) letters.push_back({rank, message});
}

void CollectiveTable::on_directory(Group& group, int rank, const CollectiveMessage& message,
                                   std::vector<Letter>& letters) const {
  const bool is_first = group.here != nullptr && group.here->ranks()[0] == rank;
  if (message.step != CollectiveMessage::kArea) {
    if (!is_first || !opens_by_directory(*group.here)) return;
    group.areas.try_emplace(rank);
    group.missing[rank] = message.missing;
    if (message.step == CollectiveMessage::kDirectory) group.directory_place = message.area;
    return;
  }
  group.areas[rank] = message.area;
  if (group.here == nullptr || !opens_by_directory(*group.here)) return;
  fill_directory(group, message.group, letters);
  // A rank that comes while the first one waits learns at once for whom.
  if (group.believed_missing >= 0 && group.directory_place.bytes == 0) {
    CollectiveMessage answer = opening(group, message.group, CollectiveMessage::kAbsent);
    answer.missing = group.believed_missing = absent_rank(group);
    letters.push_back({rank, answer});
  }
}

bool CollectiveTable::read_directory(const Group& group,
                                     std::vector<p2p::MemoryRef>& areas) const noexcept {
  const std::span<const int> ranks = group.here->ranks();
  const std::size_t bytes = ranks.size() * sizeof(p2p::MemoryRef);
  const std::byte* data = group.directory ? group.directory.data() : nullptr;
  if (data == nullptr) {
    if (group.directory_place.bytes != bytes) return false;
    p2p::Channel& channel = *mesh_.peer(ranks[0]).channel;
    const auto found = channel.resolve(group.directory_place);
    if (!found.ok()) return false;
    data = channel.map(*found);
  }
  areas.resize(ranks.size());  // within what await_members() has reserved
  std::memcpy(areas.data(), data, bytes);
  return true;
}

}  // namespace weft::detail
