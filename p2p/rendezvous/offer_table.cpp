#include "p2p/rendezvous/offer_table.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft::p2p::rendezvous {

OfferTable::Key& OfferTable::at(std::uint32_t key) {
  while (by_key_.size() <= key) by_key_.emplace_back();
  return by_key_[key];
}

bool OfferTable::is_idle(std::uint32_t key) const noexcept {
  if (key >= by_key_.size()) return true;
  return by_key_[key].entries.empty() && by_key_[key].pins == 0 &&
         std::none_of(awaited_.begin(), awaited_.end(),
                      [key](const Awaited& a) { return a.match.key == key; });
}

OfferTable::Entry* OfferTable::find(Key& key, std::uint64_t step) noexcept {
  const auto found = std::find_if(key.entries.begin(), key.entries.end(),
                                  [&](const Entry& entry) { return entry.step == step; });
  return found == key.entries.end() ? nullptr : &*found;
}

void OfferTable::erase(Key& key, Entry* entry) noexcept {
  if (entry != &key.entries.back()) *entry = std::move(key.entries.back());
  key.entries.pop_back();
}

bool OfferTable::has_room(std::size_t bytes) const noexcept {
  if (offers_ == 0) return true;
  return offers_ < limits_.offers && bytes_ <= limits_.bytes && bytes <= limits_.bytes - bytes_;
}

void OfferTable::count_parked(const Content& content) noexcept {
  ++offers_;
  bytes_ += content.metadata.bytes();
}

void OfferTable::count_gone(const Content& content) noexcept {
  --offers_;
  bytes_ -= content.metadata.bytes();
}

OfferTable::Outcome OfferTable::offer(std::uint32_t key, std::uint64_t step, Content& content,
                                      Match& match) {
  Key& entries = at(key);
  Entry* entry = find(entries, step);
  if (entry != nullptr && !entry->has_content) {
    match = {key, step, entry->request, std::move(content)};
    erase(entries, entry);
    --requests_;
    entries.done.add(step);
    return Outcome::matched;
  }
  if (entry != nullptr || entries.done.contains(step)) return Outcome::duplicate;
  if (!has_room(content.metadata.bytes())) return Outcome::full;
  count_parked(content);
  entries.entries.push_back({step, next_order_++, true, std::move(content), {}});
  return Outcome::parked;
}

OfferTable::Outcome OfferTable::ask(std::uint32_t key, std::uint64_t step, const Request& request,
                                    Match& match) {
  Key& entries = at(key);
  Entry* entry = find(entries, step);
  if (entry != nullptr && entry->has_content) {
    count_gone(entry->content);
    match = {key, step, request, std::move(entry->content)};
    erase(entries, entry);
    entries.done.add(step);
    return Outcome::matched;
  }
  if (entry != nullptr || entries.done.contains(step)) return Outcome::duplicate;
  if (requests_ >= limits_.requests) return Outcome::full;
  ++requests_;
  entries.entries.push_back({step, 0, false, {}, request});
  return Outcome::parked;
}

void OfferTable::await(Match match) {
  count_parked(match.content);
  awaited_.push_back({next_order_++, std::move(match)});
}

std::optional<Match> OfferTable::take_awaited(const RequestId& id) {
  const auto found = std::find_if(awaited_.begin(), awaited_.end(),
                                  [&](const Awaited& a) { return a.match.request.id == id; });
  if (found == awaited_.end()) return std::nullopt;
  std::optional<Match> match(std::move(found->match));
  if (&*found != &awaited_.back()) *found = std::move(awaited_.back());
  awaited_.pop_back();
  count_gone(match->content);
  return match;
}

bool OfferTable::cancel(const RequestId& id) {
  if (take_awaited(id)) return true;
  for (Key& key : by_key_)
    for (Entry& entry : key.entries)
      if (!entry.has_content && entry.request.id == id) {
        erase(key, &entry);
        --requests_;
        return true;
      }
  return false;
}

std::vector<RequestId> OfferTable::clear() {
  std::vector<RequestId> unanswered;
  for (Key& key : by_key_) {
    for (const Entry& entry : key.entries)
      if (!entry.has_content) unanswered.push_back(entry.request.id);
    key.entries.clear();
  }
  for (const Awaited& awaited : awaited_) unanswered.push_back(awaited.match.request.id);
  awaited_.clear();
  offers_ = requests_ = bytes_ = 0;
  return unanswered;
}

bool OfferTable::lent(std::string_view name, std::uint64_t step) const noexcept {
  const std::uint32_t number = keys_.find(name);
  if (number >= by_key_.size()) return false;
  const auto& entries = by_key_[number].entries;
  const auto reads = [](const Content& content) {
    return !content.owned && !content.tensor.empty();
  };
  return std::any_of(
             entries.begin(), entries.end(),
             [&](const Entry& e) { return e.step == step && e.has_content && reads(e.content); }) ||
         std::any_of(awaited_.begin(), awaited_.end(), [&](const Awaited& a) {
           return a.match.key == number && a.match.step == step && reads(a.match.content);
         });
}

KeyStep OfferTable::oldest() const noexcept {
  std::uint64_t order = std::numeric_limits<std::uint64_t>::max();
  KeyStep oldest;
  for (const Awaited& a : awaited_)
    if (a.order < order) {
      order = a.order;
      oldest = {keys_.name(a.match.key), a.match.step};
    }
  for (std::size_t key = 0; key < by_key_.size(); ++key)
    for (const Entry& entry : by_key_[key].entries)
      if (entry.has_content && entry.order < order) {
        order = entry.order;
        oldest = {keys_.name(static_cast<std::uint32_t>(key)), entry.step};
      }
  return oldest;
}

}  // namespace weft::p2p::rendezvous
