// The application's own memory as a source and target of transfers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "p2p/memory/arena.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// A memory region of the application, lent to weft for as long as anything refers to it. Like an
/// arena chunk, a region has a chunk number, never reused, by which peers name it. Each fabric
/// decides how peers reach the region.
struct AdoptedRegion {
  std::uint32_t chunk = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Block alive;  ///< control arena word: kAlive | chunk until the region is returned

  static constexpr std::uint64_t kAlive = 0x61646f7074ULL << 24U;
  static std::uint64_t alive_value(std::uint32_t chunk) noexcept {
    return kAlive | (chunk & 0xffffffU);
  }
};

/// A rank's adopted regions. Thread-safe.
class AdoptedMemory : public std::enable_shared_from_this<AdoptedMemory> {
 public:
  explicit AdoptedMemory(std::shared_ptr<Arena> control) : control_(std::move(control)) {}

  /// The returned storage keeps `memory` alive until the storage is destroyed. Throws
  /// Error(exhausted).
  std::shared_ptr<Storage> adopt(std::shared_ptr<void> memory, std::size_t bytes);

  std::optional<AdoptedRegion> region(std::uint32_t chunk) const;
  /// The chunk and offset of `tensor`; nullopt if the tensor does not lie in an adopted region.
  std::optional<Block> locate(const Tensor& tensor) const noexcept;

  /// A registered on_release() function; destruction removes it. Once the destructor has returned,
  /// the function neither runs nor will run.
  class Listener {
   public:
    Listener() = default;
    Listener(Listener&& other) noexcept
        : memory_(std::move(other.memory_)), number_(other.number_) {}
    Listener& operator=(Listener&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(number_, other.number_);
      return *this;
    }
    ~Listener();

   private:
    friend class AdoptedMemory;
    Listener(std::shared_ptr<AdoptedMemory> memory, std::uint64_t number)
        : memory_(std::move(memory)), number_(number) {}

    std::shared_ptr<AdoptedMemory> memory_;
    std::uint64_t number_ = 0;
  };
  /// Calls `forget` with the chunk of every region that is returned, on the returning thread:
  /// region() no longer finds the chunk, and the application gets its memory back after the call.
  [[nodiscard]] Listener on_release(std::function<void(std::uint32_t chunk)> forget);

 private:
  class Adopted;
  void release(const AdoptedRegion& region) noexcept;

  const std::shared_ptr<Arena> control_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, AdoptedRegion> regions_;
  std::uint32_t next_ = 0;

  std::mutex listeners_mutex_;  ///< never taken while `mutex_` is held
  std::map<std::uint64_t, std::function<void(std::uint32_t)>> listeners_;
  std::uint64_t next_listener_ = 0;
};

}  // namespace weft::p2p
