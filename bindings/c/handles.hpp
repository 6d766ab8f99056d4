// The objects behind the handles of weft.h.
#pragma once

#include <atomic>

#include "weft.h"
#include "weft/world.hpp"

struct weft_world {
  weft::World world;
  std::atomic<int> open{0};  ///< handles that must be freed first
};

namespace weft::c {

/// Counts a handle as open in its world as long as it lives. The first member of a handle, so that
/// it goes last.
class OpenIn {
 public:
  explicit OpenIn(weft_world& world) noexcept : world_(&world) { ++world.open; }
  ~OpenIn() { --world_->open; }
  OpenIn(const OpenIn&) = delete;
  OpenIn& operator=(const OpenIn&) = delete;

  weft_world& world() const noexcept { return *world_; }

 private:
  weft_world* world_;
};

}  // namespace weft::c

namespace weft::c {

/// The parts of the handles of plans and messages.
Plan& plan_in(weft_plan& handle) noexcept;
MessageRequest& request_in(weft_message_request& handle) noexcept;

}  // namespace weft::c

struct weft_tensor {
  weft::Tensor tensor;
  weft_memory memory = WEFT_MEMORY_WRAPPED;
  bool read_only = false;
};

struct weft_group {
  weft::Group group;
};

struct weft_slot {
  weft::c::OpenIn open;
  weft::Slot slot;
  int held_arrivals = 0;
};

struct weft_remote_slot {
  weft::c::OpenIn open;
  weft::RemoteSlot remote;
  weft::Request under_way{};  ///< the put that outlived its call; must not outlive `remote`
  int requests = 0;           ///< handles that must be freed first
};

struct weft_request {
  explicit weft_request(weft_remote_slot& slot) : open(slot.open.world()), remote(&slot) {
    ++remote->requests;
  }
  ~weft_request() { --remote->requests; }
  weft_request(const weft_request&) = delete;
  weft_request& operator=(const weft_request&) = delete;

  weft::c::OpenIn open;
  weft_remote_slot* remote;
  weft::Request request{};
};

struct weft_arrival {
  weft::c::OpenIn open;
  weft::Arrival arrival{};
  int* held = nullptr;  ///< the count of its slot
};

struct weft_published_slot {
  weft::c::OpenIn open;
  weft::PublishedSlot slot;
};

struct weft_published_reader {
  weft::c::OpenIn open;
  weft::PublishedReader reader;
  int held_arrivals = 0;
};
