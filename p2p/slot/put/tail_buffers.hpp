// A put slot's buffers as seen by writers that put each word right behind its tensor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/contract.hpp"
#include "p2p/transport/channel.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// Buffers in place of the slot's lines: buffer n holds its tensor, then, at tail_offset(), the
/// word that a line would have. The words count the slot's tensors as the lines do, and whichever
/// of a buffer's two words has a tensor's number says how that tensor came: so writers of both
/// kinds may follow each other while the owner still reads.
class TailBuffers {
 public:
  /// Where the buffers lie, which have room for the words; they must outlive it, unless they are
  /// its own.
  struct Place {
    std::byte* first = nullptr;
    MemoryRef ref;
    std::size_t stride = 0;
    OwnedBlock own;
  };
  TailBuffers(const Contract& spec, std::size_t bytes, Place place)
      : place_(std::move(place)), word_(tail_offset(bytes)) {
    for (std::uint64_t i = 0; i < spec.depth; ++i) {
      new (place_.first + i * place_.stride + word_) std::atomic<std::uint64_t>(0);
      if (spec.placement == Placement::fixed)
        tensors_.push_back(Tensor::wrap(place_.first + i * place_.stride, spec.dtype, spec.shape));
    }
  }

  const MemoryRef& ref() const noexcept { return place_.ref; }
  std::size_t stride() const noexcept { return place_.stride; }
  const std::byte* payload(std::uint64_t buffer) const noexcept {
    return place_.first + buffer * place_.stride;
  }
  const std::atomic<std::uint64_t>& word(std::uint64_t buffer) const noexcept {
    return *reinterpret_cast<const std::atomic<std::uint64_t>*>(payload(buffer) + word_);
  }
  /// For a slot of fixed shape.
  const Tensor& tensor(std::uint64_t buffer) const noexcept { return tensors_[buffer]; }

 private:
  const Place place_;
  const std::size_t word_;
  std::vector<Tensor> tensors_;
};

}  // namespace weft::p2p
