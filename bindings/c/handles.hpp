// The objects behind the handles of weft.h.
#pragma once

#include <atomic>

#include "weft.h"
#include "weft/world.hpp"

struct weft_world {
  weft::World world;
  std::atomic<int> open_slots{0};
};

struct weft_tensor {
  weft::Tensor tensor;
};

struct weft_slot {
  weft::Slot slot;
  weft_world* world;
  int held_arrivals = 0;
};

struct weft_remote_slot {
  weft::RemoteSlot remote;
  weft_world* world;
  weft::Request under_way{};  ///< the put that outlived its call; must not outlive `remote`
};

struct weft_arrival {
  weft::Arrival arrival;
  weft_slot* slot = nullptr;
};
