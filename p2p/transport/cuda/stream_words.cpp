#include "p2p/transport/cuda/stream_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr std::size_t kWords = StreamWords::kCount + StreamWords::kTaken;
constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);
constexpr std::size_t kPage = 4096;

/// Events for the words that are used first, and as many for places on streams.
constexpr std::uint32_t kBeforehand = 64;

/// A stream that goes on has noticed by then.
constexpr std::chrono::seconds kMostNoticing{5};

/// Held while a stream begins to wait, or while none may.
std::mutex& beginning() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

StreamWords::NoneBegins::NoneBegins() : lock_(beginning()) {}

StreamWords::StreamWords(Gpu& gpu, const char* operation)
    : driver_(gpu.driver()), values_(kCount, 0), events_(kCount, nullptr) {
  free_.reserve(kCount);
  for (std::uint32_t i = kCount; i > 0; --i) free_.push_back(i - 1);
  not_taken_.reserve(kTaken);
  for (std::uint32_t i = kTaken; i > 0; --i) not_taken_.push_back(kCount + i - 1);
  words_ = static_cast<std::uint32_t*>(std::aligned_alloc(kPage, kBytes));
  if (words_ == nullptr) throw std::bad_alloc();
  std::fill_n(words_, kWords, 0U);
  const ScopedRelaxation relaxed(driver_);
  const DriverStatus status = driver_.register_host(words_, kBytes, kHostRegisterPortable);
  if (status != DriverStatus::success) std::free(words_);
  gpu.check(status, operation, "cuMemHostRegister");
}

void StreamWords::make_events(Gpu& gpu) {
  const std::lock_guard lock(mutex_);
  std::vector<Event> spare;
  for (std::uint32_t i = 0; i < kBeforehand; ++i) {
    events_[i] = gpu.take_event();
    spare.push_back(gpu.take_event());
  }
  for (const Event event : spare) gpu.give_back(event);
}

StreamWords::~StreamWords() {
  const auto until = std::chrono::steady_clock::now() + kMostNoticing;
  const ScopedRelaxation relaxed(driver_);
  while (!all_have_passed()) {
    if (std::chrono::steady_clock::now() > until) return;  // on purpose: the GPU may still read it
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (const Event event : events_)
    if (event != nullptr) (void)driver_.destroy_event(event);
  (void)driver_.unregister_host(words_);
  std::free(words_);
}

bool StreamWords::all_have_passed() noexcept {
  return std::ranges::all_of(events_, [this](Event event) {
    return event == nullptr || driver_.query_event(event) != DriverStatus::not_ready;
  });
}

void StreamWords::store(std::uint32_t index, std::uint32_t value) noexcept {
  tell_gpus(words_[index], value);
}

StreamWords::Word StreamWords::begin_wait(Gpu& gpu, const char* operation, StreamHandle stream) {
  Word word;
  {
    const std::scoped_lock lock(beginning(), mutex_);
    if (free_.empty())
      throw_error(Code::exhausted, operation,
                  fmt::format("the {} words on which streams wait are all in use", kCount),
                  "wait for some on the thread");
    word.index = take_free();
    word.value = ++values_[word.index];
    count_waiting(1);
  }
  // Without the mutex: the driver waits here while the stream is full, perhaps for a stream that
  // end_wait() is to let go on.
  const std::uint32_t index = word.index;
  try {
    if (events_[index] == nullptr) events_[index] = gpu.take_event();
    gpu.check(driver_.wait_value32(stream, reinterpret_cast<DevicePointer>(&words_[index]),
                                   word.value, kWaitValueGreaterOrEqual),
              operation, "cuStreamWaitValue32");
  } catch (...) {
    end_wait(word);
    throw;
  }
  // A driver that records nothing here has lost its GPU.
  (void)driver_.record_event(events_[index], stream);
  return word;
}

std::uint32_t StreamWords::take_free() noexcept {
  // The word's one event tells of its last wait alone.
  const ScopedRelaxation relaxed(driver_);
  for (std::size_t i = free_.size(); i > 0; --i) {
    const Event event = events_[free_[i - 1]];
    if (event != nullptr && driver_.query_event(event) == DriverStatus::not_ready) continue;
    std::swap(free_[i - 1], free_.back());
    break;
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

void StreamWords::end_wait(Word word) noexcept {
  const std::lock_guard lock(mutex_);
  store(word.index, word.value);
  free_.push_back(word.index);
  count_waiting(-1);
}

std::vector<std::uint32_t> StreamWords::take(const char* operation, std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (count > not_taken_.size())
    throw_error(Code::exhausted, operation,
                fmt::format("{} words that GPUs reach are free, and {} are needed",
                            not_taken_.size(), count),
                "close slots of great depth for whose tensors streams have waited");
  std::vector<std::uint32_t> taken(not_taken_.end() - static_cast<std::ptrdiff_t>(count),
                                   not_taken_.end());
  not_taken_.resize(not_taken_.size() - count);
  return taken;
}

void StreamWords::give_back(const std::vector<std::uint32_t>& indices) noexcept {
  const std::lock_guard lock(mutex_);
  not_taken_.insert(not_taken_.end(), indices.begin(), indices.end());
}

StreamWait::StreamWait(std::shared_ptr<Gpu> gpu, const char* operation, StreamHandle stream) {
  word_ = gpu->words(operation).begin_wait(*gpu, operation, stream);
  gpu_ = std::move(gpu);
}

void StreamWait::end() noexcept {
  if (gpu_ == nullptr) return;
  if (!gpu_->forked()) gpu_->words_in_use()->end_wait(word_);
  gpu_ = nullptr;
}

}  // namespace weft::p2p::cuda
