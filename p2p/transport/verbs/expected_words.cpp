#include "p2p/transport/verbs/expected_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace weft::p2p::verbs {

std::uint32_t ExpectedWordsTable::free_run(std::uint32_t count) {
  if (const auto found = free_.lower_bound(count); found != free_.end()) {
    const auto [held, first] = *found;
    free_.erase(found);
    if (held > count) free_.emplace(held - count, first + count);
    return first;
  }
  const auto first = static_cast<std::uint32_t>(words_.size());
  if (count > Immediate::kMaxIndex + 1 - first)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "attach",
        .message = fmt::format("one peer puts into {} slots here already, {} more are too many",
                               first, count),
        .hint = "close slots that are not needed, or move several tensors by one slot"});
  words_.resize(first + count);
  return first;
}

std::uint32_t ExpectedWordsTable::add(const ExpectedWords& words) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t count = words.in_turn ? 1 : words.count;
  const std::uint32_t first = free_run(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Word& word = words_[first + i];
    word = {};
    word.place = words.words + std::size_t{i} * words.stride;
    word.stride = words.stride;
    if (words.in_turn) word.ring = words.count;
    word.last = words.last;
    word.passed = words.passed;
  }
  runs_.emplace(first, count);
  return first;
}

void ExpectedWordsTable::remove(std::uint32_t notification_id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto run = runs_.find(notification_id);
  if (run == runs_.end()) return;
  for (std::uint32_t i = 0; i < run->second; ++i) words_[notification_id + i] = {};
  try {
    free_.emplace(run->second, notification_id);
  } catch (const std::bad_alloc&) {
    // The indexes stay unused: that is no harm.
  }
  runs_.erase(run);
}

std::uint64_t ExpectedWordsTable::known(const Word& word) noexcept {
  if (word.ring != 0) return word.last;
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(word.place)
      ->load(std::memory_order_relaxed);
}

void ExpectedWordsTable::set(Word& word, std::uint64_t sequence) noexcept {
  std::byte* place =
      word.ring == 0 ? word.place : word.place + (sequence - 1) % word.ring * word.stride;
  word.last = sequence;
  reinterpret_cast<std::atomic<std::uint64_t>*>(place)->store(sequence, std::memory_order_seq_cst);
}

ExpectedWordsTable::Arrival ExpectedWordsTable::arrived(Immediate immediate,
                                                        int queue_pair) noexcept {
  const std::lock_guard lock(mutex_);
  if (immediate.index >= words_.size() || words_[immediate.index].place == nullptr)
    return Arrival::unknown;
  Word& word = words_[immediate.index];
  if (word.passed != nullptr) {
    // Those between came without an immediate.
    set(word, immediate.above(word.passed->load(std::memory_order_acquire)));
    return Arrival::set;
  }
  const std::uint64_t before = known(word);
  std::uint64_t whole = immediate.near(before);
  if (immediate.in_pieces) {
    if (!word.brought) {
      word.brought.reset(new (std::nothrow) std::array<std::uint64_t, kMaxQueuePairs>{});
      if (!word.brought) return Arrival::unknown;
    }
    std::uint64_t& brought = (*word.brought)[static_cast<std::size_t>(queue_pair)];
    brought = std::max(brought, before);
    brought = std::max(brought, immediate.near(brought));
    whole = *std::min_element(word.brought->begin(), word.brought->begin() + queue_pairs_);
    if (whole <= before) return Arrival::partly;
  }
  if (word.ring == 0) {
    // What was asked for long ago and came late is nobody's any more.
    if (whole > before) set(word, whole);
    return Arrival::set;
  }
  if (whole <= before || (!immediate.in_pieces && whole != before + 1)) return Arrival::out_of_turn;
  for (std::uint64_t next = before + 1; next <= whole; ++next) set(word, next);
  return Arrival::set;
}

}  // namespace weft::p2p::verbs
