// Who owns what the verbs library makes.
#pragma once

#include <utility>

#include "p2p/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {

/// One object of the library and its end. Objects must go before what they were made from: members
/// stand in the order in which they are made.
template <typename T, int (Verbs::*Destroy)(T*) noexcept>
class Handle {
 public:
  Handle() noexcept = default;
  Handle(Verbs& verbs, T* object) noexcept : verbs_(&verbs), object_(object) {}
  Handle(Handle&& other) noexcept
      : verbs_(other.verbs_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(verbs_, other.verbs_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (verbs_->*Destroy)(object_);
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  Verbs* verbs_ = nullptr;
  T* object_ = nullptr;
};

using Context = Handle<ibv_context, &Verbs::close_device>;
using ProtectionDomain = Handle<ibv_pd, &Verbs::dealloc_pd>;
using MemoryRegion = Handle<ibv_mr, &Verbs::dereg_mr>;
using CompletionEvents = Handle<ibv_comp_channel, &Verbs::destroy_comp_channel>;
using CompletionQueue = Handle<ibv_cq, &Verbs::destroy_cq>;
using QueuePairHandle = Handle<ibv_qp, &Verbs::destroy_qp>;

}  // namespace weft::p2p::verbs
