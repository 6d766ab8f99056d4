#include "p2p/transport/notification_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "weft/error.hpp"

namespace weft::p2p {

class NotificationTable::Arriving {
 public:
  explicit Arriving(NotificationTable& table) noexcept
      : table_(table), quick_(table.options_.one_at_a_time && table.arriving_.enter()) {
    if (!quick_) table_.mutex_.lock();
  }
  ~Arriving() {
    if (quick_)
      table_.arriving_.leave();
    else
      table_.mutex_.unlock();
  }
  Arriving(const Arriving&) = delete;
  Arriving& operator=(const Arriving&) = delete;

 private:
  NotificationTable& table_;
  const bool quick_;
};

class NotificationTable::Change {
 public:
  explicit Change(NotificationTable& table) noexcept : table_(table), lock_(table.mutex_) {
    if (table_.options_.one_at_a_time) table_.arriving_.begin_change();
  }
  ~Change() {
    if (table_.options_.one_at_a_time) table_.arriving_.end_change();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  NotificationTable& table_;
  const std::lock_guard<std::mutex> lock_;
};

// Runs are counted from 0; `options_.first` is added where an index travels.

std::uint32_t NotificationTable::take_run(std::uint32_t count) {
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second < count) continue;
    const auto [first, held] = *run;
    free_.erase(run);
    if (held > count) free_.emplace(first + count, held - count);
    return first;
  }
  const auto first = static_cast<std::uint32_t>(words_.size());
  if (count > options_.most - first)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "attach",
        .message = fmt::format("one peer's puts set {} words here already, {} more are too many",
                               used_, count),
        .hint = "close slots that are not needed, or move several tensors by one slot"});
  words_.resize(first + count);
  return first;
}

std::uint32_t NotificationTable::add(const ExpectedWords& words) {
  const Change change(*this);
  const std::uint32_t count = words.in_turn ? 1 : words.count;
  if (words.may_lack && count > options_.most / 2 - std::min(options_.most / 2, used_))
    throw Error(ErrorDetail{.code = Code::exhausted,
                            .operation = "attach",
                            .message = "half of a peer's words are in use"});
  const std::uint32_t first = take_run(count);
  for (std::uint32_t i = 0; i < count; ++i)
    words_[first + i] = {.place = words.words + std::size_t{i} * words.stride,
                         .ring = words.in_turn ? words.count : 0,
                         .stride = words.stride,
                         .last = words.last,
                         .passed = words.passed,
                         .places = words.places,
                         .gpu_flushes = words.gpu_flushes};
  if (words.gpu_flushes != nullptr) gpu_words_.fetch_add(count, std::memory_order_release);
  runs_.emplace(first, count);
  used_ += count;
  return options_.first + first;
}

void NotificationTable::remove(std::uint32_t index) noexcept {
  const Change change(*this);
  const std::uint32_t first = index - options_.first;
  const auto run = runs_.find(first);
  if (run == runs_.end()) return;
  used_ -= run->second;
  if (words_[first].gpu_flushes != nullptr)
    gpu_words_.fetch_sub(run->second, std::memory_order_release);
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
    // The indexes stay unused, which is harmless.
  }
  runs_.erase(run);
}

[[gnu::always_inline]] inline NotificationTable::Word* NotificationTable::find(
    std::uint32_t index) noexcept {
  const std::uint32_t at = index - options_.first;
  return at < words_.size() && words_[at].place != nullptr ? &words_[at] : nullptr;
}

const NotificationTable::Word* NotificationTable::find(std::uint32_t index) const noexcept {
  return const_cast<NotificationTable*>(this)->find(index);
}

void NotificationTable::grant(std::uint32_t index, const MemoryRef& place) noexcept {
  const std::lock_guard lock(mutex_);
  if (const std::uint32_t at = index - options_.first; at < words_.size())
    words_[at].places.front() = place;
}

NotificationTable::Place NotificationTable::judge(std::uint32_t index, std::uint64_t sequence,
                                                  const MemoryRef& place) const noexcept {
  const std::lock_guard lock(mutex_);
  const Word* word = find(index);
  if (word == nullptr) return Place::unknown;
  const auto holds = [&](const MemoryRef& granted) {
    return granted.chunk == place.chunk && place.offset >= granted.offset &&
           place.offset - granted.offset <= granted.bytes &&
           place.bytes <= granted.bytes - (place.offset - granted.offset);
  };
  if (std::any_of(word->places.begin(), word->places.end(), holds)) return Place::granted;
  return word->ring == 0 && sequence <= known(*word) ? Place::late : Place::elsewhere;
}

bool NotificationTable::expects(std::uint32_t index) const noexcept {
  const std::lock_guard lock(mutex_);
  return find(index) != nullptr;
}

stats::Counter* NotificationTable::find_gpu_flushes(std::uint32_t index) noexcept {
  const Arriving arriving(*this);
  const Word* const word = find(index);
  return word == nullptr ? nullptr : word->gpu_flushes;
}

[[gnu::always_inline]] inline std::uint64_t NotificationTable::known(const Word& word) noexcept {
  if (word.ring != 0) return word.last;
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(word.place)
      ->load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline void NotificationTable::set(Word& word,
                                                          std::uint64_t sequence) noexcept {
  std::byte* place =
      word.ring == 0 ? word.place : word.place + (sequence - 1) % word.ring * word.stride;
  word.last = sequence;
  reinterpret_cast<std::atomic<std::uint64_t>*>(place)->store(sequence, std::memory_order_release);
}

[[gnu::always_inline]] inline NotificationTable::Arrival NotificationTable::set_next(
    Word& word, std::uint64_t sequence) noexcept {
  const std::uint64_t before = known(word);
  if (word.ring != 0) {
    if (sequence != before + 1) return Arrival::out_of_turn;
    set(word, sequence);
  } else if (sequence > before) {
    set(word, sequence);
  }
  // A word set for itself that is past the sequence stays: the late put is obsolete.
  return Arrival::set;
}

NotificationTable::Arrival NotificationTable::arrived(std::uint32_t index,
                                                      std::uint64_t sequence) noexcept {
  const Arriving arriving(*this);
  Word* word = find(index);
  return word == nullptr ? Arrival::unknown : set_next(*word, sequence);
}

NotificationTable::Arrival NotificationTable::arrived(std::uint32_t index,
                                                      ShortSequence sequence) noexcept {
  const Arriving arriving(*this);
  Word* word = find(index);
  if (word == nullptr) return Arrival::unknown;
  if (word->passed == nullptr) return set_next(*word, sequence.near(known(*word)));
  // The puts between came with words behind their tensors.
  set(*word, sequence.above(word->passed->load(std::memory_order_acquire)));
  return Arrival::set;
}

NotificationTable::Arrival NotificationTable::piece_arrived(std::uint32_t index,
                                                            ShortSequence sequence,
                                                            int queue_pair) noexcept {
  const Arriving arriving(*this);
  Word* word = find(index);
  if (word == nullptr) return Arrival::unknown;
  if (word->passed != nullptr) {
    set(*word, sequence.above(word->passed->load(std::memory_order_acquire)));
    return Arrival::set;
  }
  const std::uint64_t before = known(*word);
  if (!word->brought) {
    word->brought.reset(new (std::nothrow) std::array<std::uint64_t, kMaxQueuePairs>{});
    if (!word->brought) return Arrival::unknown;
  }
  std::uint64_t& brought = (*word->brought)[static_cast<std::size_t>(queue_pair)];
  brought = std::max(brought, before);
  brought = std::max(brought, sequence.near(brought));
  const std::uint64_t whole =
      *std::min_element(word->brought->begin(), word->brought->begin() + options_.queue_pairs);
  if (whole <= before) return Arrival::partly;
  if (word->ring == 0) {
    set(*word, whole);
    return Arrival::set;
  }
  for (std::uint64_t next = before + 1; next <= whole; ++next) set(*word, next);
  return Arrival::set;
}

}  // namespace weft::p2p
