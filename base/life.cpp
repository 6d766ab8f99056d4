#include "base/life.hpp"

#include <deque>
#include <mutex>
#include <vector>

namespace weft {
namespace {

std::atomic<std::uint64_t> marks_given{0};

/// Words of all lives, in use and free. Never destroyed: handles may be static objects.
struct Words {
  std::mutex mutex;
  std::deque<std::atomic<std::uint64_t>> all;
  std::vector<std::atomic<std::uint64_t>*> free;  ///< has room for all
};

Words& words() {
  static auto& only = *new Words;
  return only;
}

std::atomic<std::uint64_t>* take_word(std::uint64_t mark) {
  Words& known = words();
  const std::lock_guard lock(known.mutex);
  if (known.free.empty()) {
    known.free.reserve(known.all.size() + 1);
    return &known.all.emplace_back(mark);
  }
  std::atomic<std::uint64_t>* const word = known.free.back();
  known.free.pop_back();
  word->store(mark, std::memory_order_release);
  return word;
}

}  // namespace

Life::Life() : word_(nullptr), mark_(marks_given.fetch_add(1, std::memory_order_relaxed) + 1) {
  word_ = take_word(mark_);
}

void Life::end() noexcept {
  if (word_->load(std::memory_order_relaxed) != mark_) return;
  word_->store(0, std::memory_order_release);
  const std::lock_guard lock(words().mutex);
  words().free.push_back(word_);
}

}  // namespace weft
