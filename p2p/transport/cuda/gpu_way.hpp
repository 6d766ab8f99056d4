// The way that tensors take to a slot on a GPU, and why not a better one.
#pragma once

#include <cstdint>

namespace weft::p2p::cuda {

/// The owner and the writer of a slot tell each other by these numbers.
enum class GpuWay : std::uint32_t {
  mapped,          ///< the writer's GPU copies into the owner's buffers
  unproven,        ///< the writer has written a page: is it there?
  other_host,      ///< the path reaches host memory alone
  not_exported,    ///< the owner's driver gives no descriptor of the memory
  no_page,         ///< no memory is left there for the page that proves the path
  no_driver,       ///< the writer's process has no GPU
  not_visible,     ///< the writer's process does not see the owner's GPU
  no_peer_access,  ///< the writer's GPU can't access the owner's
  not_mapped,      ///< the writer's driver refused to map the memory
  writes_lost,     ///< the writer's GPU does not read what it has written there
  not_seen,        ///< the owner's GPU does not see what the writer's has written
  not_answered,    ///< the owner has not answered in time
  copy_failed,     ///< the page could not be copied
  nic,             ///< the NICs of both ends read and write the GPU's memory
  nic_refused,     ///< the owner's NIC does not reach its GPU's memory
  still_copying,   ///< an earlier writer's tensor is still being copied to the owner's GPU
};

/// As a report's reason, which has the word GPU in it; nullptr for numbers that are none.
constexpr const char* reason_of(GpuWay way) noexcept {
  switch (way) {
    case GpuWay::mapped:
      return "the writer's GPU copies into the owner's memory, which is mapped there";
    case GpuWay::unproven:
      return "the path between the GPUs is not proven yet";
    case GpuWay::other_host:
      return "its tensors go to a GPU, and the path reaches host memory alone";
    case GpuWay::not_exported:
      return "the driver does not export the memory of the owner's GPU";
    case GpuWay::no_page:
      return "the owner's GPU has no memory left for the page that proves the path";
    case GpuWay::no_driver:
      return "the writer's process can use no GPU";
    case GpuWay::not_visible:
      return "the writer's process does not see the owner's GPU (CUDA_VISIBLE_DEVICES, MIG)";
    case GpuWay::no_peer_access:
      return "the writer's GPU can't access the owner's";
    case GpuWay::not_mapped:
      return "the writer's driver refuses to map the memory of the owner's GPU";
    case GpuWay::writes_lost:
      return "what the writer's GPU writes to the owner's is lost";
    case GpuWay::not_seen:
      return "the owner's GPU does not see what the writer's has written";
    case GpuWay::not_answered:
      return "the owner has not said in time whether its GPU sees what the writer's has written";
    case GpuWay::copy_failed:
      return "the GPU could not copy the page that proves the path";
    case GpuWay::nic:
      return "the NIC reaches the GPU's memory";
    case GpuWay::nic_refused:
      return "the owner's NIC does not reach its GPU's memory (see the owner's log)";
    case GpuWay::still_copying:
      return "the owner's GPU was still copying an earlier writer's tensor";
  }
  return nullptr;
}

}  // namespace weft::p2p::cuda
