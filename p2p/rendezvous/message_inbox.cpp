#include "p2p/rendezvous/message_inbox.hpp"

#include <utility>

namespace weft::p2p::rendezvous {
namespace {

constexpr std::size_t kMostByControl = 4096;

}  // namespace

MessageInbox::~MessageInbox() {
  if (slot_) session_.slots.close(std::move(slot_));
}

void MessageInbox::expose() {
  // Notify::always: a rank that computes must still hear of a request.
  slot_ = session_.slots.expose(session_.message_slot(session_.peer.rank), {}, Notify::always);
}

bool MessageInbox::on_control(std::span<const std::byte> bytes) {
  const std::lock_guard lock(control_mutex_);
  if (by_control_.size() >= kMostByControl) return false;
  by_control_.emplace_back(bytes.begin(), bytes.end());
  return true;
}

std::vector<std::vector<std::byte>> MessageInbox::take_by_control() noexcept {
  const std::lock_guard lock(control_mutex_);
  return std::exchange(by_control_, {});
}

}  // namespace weft::p2p::rendezvous
