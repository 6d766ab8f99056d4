// The meaning of a failed completion, for people.
#pragma once

#include "p2p/transport/verbs/device/device.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

/// Whether the way to the peer is gone, or the queue pair was taken down: another port may do.
bool is_loss(ibv_wc_status status) noexcept;

/// Whether the peer's end has refused the request: a defect of weft, or the peer's process is
/// ending, whose memory goes before its queue pairs do.
bool is_refusal(ibv_wc_status status) noexcept;

/// path_failed where the peer or the way to it is gone; system for what should never happen and is
/// a defect of weft.
Status failure_of(const ibv_wc& completion, const Device& device, int peer, int queue_pair);

}  // namespace weft::p2p::verbs
