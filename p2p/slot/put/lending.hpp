// The tensors that a writer of a dynamic slot has lent to the owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/channel.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// By buffer, the record that a put announces and the tensor that the owner reads. A tensor that
/// can't be read in place is packed into memory of the world's first.
class Lending {
 public:
  /// `taken_back`: all up to this sequence are the writer's. Throws Error, std::bad_alloc.
  Lending(LocalRank& local, std::uint32_t depth, std::uint64_t taken_back)
      : local_(local),
        lent_(depth),
        records_(local.control, depth * sizeof(DynamicRecord)),
        taken_back_(taken_back) {}

  DynamicRecord& record(std::uint64_t buffer) const noexcept {
    return reinterpret_cast<DynamicRecord*>(records_.data())[buffer];
  }
  struct Lent {
    Status status{};
    const char* packed_because = nullptr;  ///< null: the tensor is read in place
  };
  /// Fills the buffer's record and holds the tensor until it is taken back. One on a GPU lies where
  /// the owner's NIC reads it, or is staged. `staged`: a copy of its
  /// elements in the data arena, which the owner reads instead; empty: there is none.
  Lent lend(const Channel& channel, const Tensor& tensor, std::uint64_t buffer,
            OwnedBlock staged) noexcept;
  /// The put was cancelled before it was announced.
  void forget(std::uint64_t buffer) noexcept { held_at(buffer) = {}; }
  /// The owner has read all up to `released`.
  void take_back(std::uint64_t released) noexcept {
    for (; taken_back_ < released; ++taken_back_) forget(taken_back_ % lent_.size());
  }
  bool is_taken_back(std::uint64_t sequence) const noexcept { return taken_back_ >= sequence; }

  /// The owner may still read adopted memory: it is never freed.
  void keep_adopted() noexcept;
  /// The channel may still read the records: they are never freed.
  void keep_records() noexcept;

 private:
  /// Where the owner reads it in place.
  std::optional<MemoryRef> locate(const Tensor& tensor) const;
  struct Held {
    Tensor tensor{};
    OwnedBlock packed{};  ///< where the tensor could not be read in place
  };
  Held& held_at(std::uint64_t buffer) noexcept { return lent_[buffer]; }

  LocalRank& local_;
  std::vector<Held> lent_;  ///< by buffer
  OwnedBlock records_;      ///< by buffer
  std::uint64_t taken_back_;
};

/// Copies a tensor's elements one behind the other.
void pack(const Tensor& tensor, std::byte* to) noexcept;

}  // namespace weft::p2p
