#include "p2p/transport/tcp/word_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>

namespace weft::p2p::tcp {

std::uint32_t WordTable::take_run(std::uint32_t count) {
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second < count) continue;
    const auto [first, held] = *run;
    free_.erase(run);
    if (held > count) free_.emplace(first + count, held - count);
    return first;
  }
  const auto first = static_cast<std::uint32_t>(words_.size());
  if (count > kMostWords - first)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "attach",
        .message = fmt::format("one peer puts into {} slots here already, {} more are too many",
                               first, count),
        .hint = "close slots that are not needed, or move several tensors by one slot"});
  words_.resize(first + count);
  return first;
}

std::uint32_t WordTable::add(const ExpectedWords& words) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t count = words.in_turn ? 1 : words.count;
  const std::uint32_t first = take_run(count);
  for (std::uint32_t i = 0; i < count; ++i)
    words_[first + i] = {.place = words.words + std::size_t{i} * words.stride,
                         .ring = words.in_turn ? words.count : 0,
                         .stride = words.stride,
                         .last = words.last,
                         .places = words.places};
  runs_.emplace(first, count);
  return first;
}

void WordTable::remove(std::uint32_t first) noexcept {
  const std::lock_guard lock(mutex_);
  const auto run = runs_.find(first);
  if (run == runs_.end()) return;
  for (std::uint32_t i = 0; i < run->second; ++i) words_[first + i] = {};
  try {
    auto freed = free_.emplace(first, run->second).first;
    if (const auto next = std::next(freed);
        next != free_.end() && freed->first + freed->second == next->first) {
      freed->second += next->second;
      free_.erase(next);
    }
    if (freed != free_.begin())
      if (const auto before = std::prev(freed); before->first + before->second == freed->first) {
        before->second += freed->second;
        free_.erase(freed);
      }
  } catch (const std::bad_alloc&) {
    // The indexes stay unused: that is no harm.
  }
  runs_.erase(run);
}

void WordTable::grant(std::uint32_t index, const MemoryRef& place) noexcept {
  const std::lock_guard lock(mutex_);
  if (index < words_.size()) words_[index].places.front() = place;
}

WordTable::Place WordTable::judge(std::uint32_t index, std::uint64_t sequence,
                                  const MemoryRef& place) const noexcept {
  const std::lock_guard lock(mutex_);
  if (index >= words_.size() || words_[index].place == nullptr) return Place::unknown;
  const Word& word = words_[index];
  const auto holds = [&](const MemoryRef& granted) {
    return granted.chunk == place.chunk && place.offset >= granted.offset &&
           place.offset - granted.offset <= granted.bytes &&
           place.bytes <= granted.bytes - (place.offset - granted.offset);
  };
  if (std::any_of(word.places.begin(), word.places.end(), holds)) return Place::granted;
  const auto& value = *reinterpret_cast<const std::atomic<std::uint64_t>*>(word.place);
  const bool is_late = word.ring == 0 && sequence <= value.load(std::memory_order_relaxed);
  return is_late ? Place::late : Place::elsewhere;
}

bool WordTable::expects(std::uint32_t index) const noexcept {
  const std::lock_guard lock(mutex_);
  return index < words_.size() && words_[index].place != nullptr;
}

WordTable::Arrival WordTable::arrived(std::uint32_t index, std::uint64_t sequence) noexcept {
  const std::lock_guard lock(mutex_);
  if (index >= words_.size() || words_[index].place == nullptr) return Arrival::unknown;
  Word& word = words_[index];
  std::byte* place = word.place;
  if (word.ring != 0) {
    if (sequence != word.last + 1) return Arrival::out_of_turn;
    place += (sequence - 1) % word.ring * word.stride;
    word.last = sequence;
  }
  auto& value = *reinterpret_cast<std::atomic<std::uint64_t>*>(place);
  // Of a word that is set by itself, what was asked for long ago and came late is nobody's any
  // more.
  if (word.ring == 0 && sequence <= value.load(std::memory_order_relaxed)) return Arrival::set;
  value.store(sequence, std::memory_order_seq_cst);
  return Arrival::set;
}

}  // namespace weft::p2p::tcp
