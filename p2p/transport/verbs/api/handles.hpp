// Owners of the objects that the RDMA libraries make.
#pragma once

#include <utility>

#include "p2p/transport/verbs/api/connection_manager.hpp"
#include "p2p/transport/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {

/// One object of a library and its end. Objects must go before what they were made from: members
/// stand in the order in which they are made.
template <typename Library, typename T, int (Library::*Destroy)(T*) noexcept>
class Handle {
 public:
  Handle() noexcept = default;
  Handle(Library& library, T* object) noexcept : library_(&library), object_(object) {}
  Handle(Handle&& other) noexcept
      : library_(other.library_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (library_->*Destroy)(object_);
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  Library* library_ = nullptr;
  T* object_ = nullptr;
};

using Context = Handle<Verbs, ibv_context, &Verbs::close_device>;
using ProtectionDomain = Handle<Verbs, ibv_pd, &Verbs::dealloc_pd>;
using MemoryRegion = Handle<Verbs, ibv_mr, &Verbs::dereg_mr>;
using CompletionEvents = Handle<Verbs, ibv_comp_channel, &Verbs::destroy_comp_channel>;
using CompletionQueue = Handle<Verbs, ibv_cq, &Verbs::destroy_cq>;
using QueuePairHandle = Handle<Verbs, ibv_qp, &Verbs::destroy_qp>;
using ConnectionEvents =
    Handle<ConnectionManager, rdma_event_channel, &ConnectionManager::destroy_event_channel>;
using ConnectionId = Handle<ConnectionManager, rdma_cm_id, &ConnectionManager::destroy_id>;

}  // namespace weft::p2p::verbs
