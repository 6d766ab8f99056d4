#include "p2p/signal/signal_table.hpp"

#include <cstring>

namespace weft::p2p {

void SignalTable::on_message(Peer& peer, std::span<const std::byte> bytes) {
  MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  if (type == MessageType::signal_wanted) {
    if (const auto message = parse<SignalWanted>(bytes)) exposed_.on_wanted(peer, *message);
  } else if (type == MessageType::signal_given) {
    if (const auto message = parse<SignalGranted>(bytes)) remote_.on_granted(peer, *message);
  } else if (type == MessageType::signal_act) {
    if (const auto message = parse<SignalRequest>(bytes)) exposed_.on_request(peer, *message);
  } else if (type == MessageType::signal_left) {
    if (const auto message = parse<SignalLeft>(bytes)) exposed_.on_left(peer, message->signal_id);
  } else if (const auto message = parse<SignalReply>(bytes)) {
    remote_.on_reply(peer, *message);
  }
}

}  // namespace weft::p2p
