#include "p2p/rendezvous/request_groups.hpp"

#include <algorithm>
#include <new>

namespace weft::p2p::rendezvous {

RequestGroups::RequestGroups(std::byte* words, std::uint32_t groups)
    : words_(words), groups_(groups) {
  // Lowest number first: reuse keeps the same few words and items in the cache.
  for (std::uint32_t group = groups; group-- > 0;) {
    for (std::uint32_t item = 0; item < kGroupItems; ++item)
      new (&word({group, 0, item})) std::atomic<std::uint64_t>(0);
    free_.push_back(group);
  }
}

std::uint32_t RequestGroups::number_of(std::string_view name) {
  const auto found = keys_.find_or_add(
      name, kKeptKeys, [this](std::uint32_t number) { return key(number).items.empty(); });
  if (found.replaces) {
    Key& reused = key(found.number);
    reused.announced = false;
    reused.metadata.reset();
    reused.done = {};
  }
  return found.number;
}

RequestGroups::Key& RequestGroups::key(std::uint32_t number) {
  while (by_key_.size() <= number) by_key_.emplace_back();
  return by_key_[number];
}

RequestGroups::Known RequestGroups::known(std::uint32_t number, std::uint64_t step, Item*& item) {
  Key& key = this->key(number);
  const auto found = std::find_if(key.items.begin(), key.items.end(),
                                  [&](const Item* i) { return i->step == step; });
  if (found != key.items.end()) {
    item = *found;
    return item->waited || item->cancelled ? Known::being_received : Known::left_behind;
  }
  return key.done.contains(step) ? Known::received : Known::no;
}

bool RequestGroups::begin_group() noexcept {
  if (free_.empty()) {
    // A request that waits until others are answered may be what these depend on.
    const auto with_room =
        std::ranges::find_if(groups_, [](const Group& group) { return group.used < kGroupItems; });
    open_ = static_cast<std::uint32_t>(with_room - groups_.begin());
    return with_room != groups_.end();
  }
  open_ = free_.back();
  free_.pop_back();
  Group& group = groups_[open_];
  ++group.generation;
  group.live = group.used = 0;
  return true;
}

Item* RequestGroups::add(std::uint32_t number, std::uint64_t step) {
  Group& group = groups_[open_];
  if (group.used == kGroupItems) return nullptr;
  if (group.items.size() == group.used) group.items.push_back(std::make_unique<Item>());
  Item& item = *group.items[group.used];
  item.id = {open_, group.generation, group.used};
  item.word = &word(item.id);
  // The writer of the word may know only the low bits of the generation, so start just below it.
  word(item.id).store(group.generation - 1, std::memory_order_relaxed);
  item.key = number;
  item.step = step;
  item.metadata = {};
  item.result = {};
  item.by_control = item.cancelled = false;
  item.waited = true;
  item.ended.store(false, std::memory_order_relaxed);
  item.failure = {};
  item.to_gpu = {};
  ++group.used;
  ++group.live;
  ++live_;
  key(number).items.push_back(&item);
  return &item;
}

void RequestGroups::end_group() noexcept {
  if (groups_[open_].live == 0) free_.push_back(open_);
}

Item* RequestGroups::find(const RequestId& id) noexcept {
  if (id.group >= groups_.size()) return nullptr;
  Group& group = groups_[id.group];
  if (group.generation != id.generation || id.item >= group.used) return nullptr;
  Item& item = *group.items[id.item];
  const auto& items = by_key_[item.key].items;
  const bool live = std::find(items.begin(), items.end(), &item) != items.end();
  return live && !item.done() ? &item : nullptr;
}

void RequestGroups::forget(Item& item) noexcept {
  auto& items = by_key_[item.key].items;
  *std::find(items.begin(), items.end(), &item) = items.back();
  items.pop_back();
  item.result = {};
  item.to_gpu = {};
  --live_;
  --groups_[item.id.group].live;
}

void RequestGroups::take_back(Item& item) noexcept {
  forget(item);
  --groups_[item.id.group].used;
}

void RequestGroups::release(Item& item, bool received) {
  if (received) by_key_[item.key].done.add(item.step);
  forget(item);
  if (groups_[item.id.group].live == 0) free_.push_back(item.id.group);
}

void RequestGroups::for_each_left_behind(const std::function<void(Item&)>& act) {
  if (live_ == 0) return;
  for (Key& key : by_key_)
    for (std::size_t i = key.items.size(); i-- > 0;)
      if (!key.items[i]->waited) act(*key.items[i]);
}

}  // namespace weft::p2p::rendezvous
