// The words by which a published slot's owner and its readers understand each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "p2p/slot/attach/slot_messages.hpp"

namespace weft::p2p {

/// A version and the buffer that it lies in, in one word. 0: nothing was published yet.
struct Newest {
  static constexpr unsigned kBufferBits = 12;
  static_assert((1U << kBufferBits) == kMaxDepth);

  std::uint64_t version = 0;
  std::uint64_t buffer = 0;

  std::uint64_t word() const noexcept { return (version << kBufferBits) | buffer; }
  static Newest of(std::uint64_t word) noexcept {
    return {word >> kBufferBits, word & (kMaxDepth - 1)};
  }
};

/// In the owner's control arena, written by the owner, read by everybody: the newest value, and for
/// each buffer the version that lies in it whole (0: it is being filled). Up to seven buffers are
/// one cache line, so that a look costs one crossing.
class PublishedWords {
 public:
  static constexpr std::size_t bytes(std::uint32_t depth) noexcept {
    return (1 + std::size_t{depth}) * sizeof(std::uint64_t);
  }
  static constexpr std::size_t version_offset(std::uint64_t buffer) noexcept {
    return (1 + buffer) * sizeof(std::uint64_t);
  }

  PublishedWords() noexcept = default;
  explicit PublishedWords(std::byte* at) noexcept
      : words_(reinterpret_cast<std::atomic<std::uint64_t>*>(at)) {}

  explicit operator bool() const noexcept { return words_ != nullptr; }
  std::atomic<std::uint64_t>& newest() const noexcept { return words_[0]; }
  std::atomic<std::uint64_t>& version(std::uint64_t buffer) const noexcept {
    return words_[1 + buffer];
  }

 private:
  std::atomic<std::uint64_t>* words_ = nullptr;
};

/// One reader's words in the owner's control arena, written by that reader only: how many of its
/// views pin each buffer, and, where WEFT_CHECK=flow asks for it, the highest version let go.
class ReaderWords {
 public:
  static constexpr std::size_t bytes(std::uint32_t depth) noexcept {
    return sizeof(std::uint64_t) + depth;
  }

  ReaderWords() noexcept = default;
  explicit ReaderWords(std::byte* at) noexcept : at_(at) {}

  /// The owner looks at the pins before it fills a buffer, and takes their line along. Asking for
  /// it back while waiting for the version keeps that from standing between the version and the
  /// pin.
  void keep_near() const noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at_));
#else
    __builtin_prefetch(at_, 1);
#endif
  }

  explicit operator bool() const noexcept { return at_ != nullptr; }
  std::atomic<std::uint64_t>& released() const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(at_);
  }
  std::atomic<std::uint8_t>& pins(std::uint64_t buffer) const noexcept {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(at_ + sizeof(std::uint64_t))[buffer];
  }
  /// For the next reader; the owner may just be looking at those of the one before.
  void clear(std::uint32_t depth) const noexcept {
    released().store(0, std::memory_order_relaxed);
    for (std::uint32_t buffer = 0; buffer < depth; ++buffer)
      pins(buffer).store(0, std::memory_order_relaxed);
  }

 private:
  std::byte* at_ = nullptr;
};

}  // namespace weft::p2p
