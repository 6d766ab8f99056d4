#include "weft/report.hpp"

namespace weft {

TransferCounters& TransferCounters::operator+=(const TransferCounters& other) noexcept {
  transfers += other.transfers;
  bytes_moved += other.bytes_moved;
  bytes_copied += other.bytes_copied;
  work_requests += other.work_requests;
  credit_writes += other.credit_writes;
  control_messages += other.control_messages;
  registrations += other.registrations;
  staged_bytes += other.staged_bytes;
  device_copies += other.device_copies;
  gpu_flushes += other.gpu_flushes;
  return *this;
}

const char* name(Role role) noexcept {
  switch (role) {
    case Role::puts:
      return "puts";
    case Role::receives:
      return "receives";
    case Role::publishes:
      return "publishes";
    case Role::views:
      return "views";
  }
  return "unknown";
}

const char* name(PeerHealth health) noexcept {
  switch (health) {
    case PeerHealth::alive:
      return "alive";
    case PeerHealth::slow:
      return "slow";
    case PeerHealth::suspect:
      return "suspect";
    case PeerHealth::dead:
      return "dead";
  }
  return "unknown";
}

}  // namespace weft
