// The recorder's events; their numbers are part of the stats segment's layout.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::stats {

enum class Event : std::uint8_t {
  none,
  // The job.
  joined,        ///< value: size of the job
  connected,     ///< the path to the peer is up
  leaving,       ///< this rank leaves; value: the failed rank that made it leave, all ones: none
  peer_left,     ///< value: as for leaving
  peer_failed,   ///< the peer died without leaving
  chunk_shared,  ///< a chunk of this rank was announced to the peer; value: the chunk
  chunk_mapped,  ///< a chunk of the peer was mapped; value: the chunk
  // Slots: the owner's end.
  exposed,             ///< value: depth
  attachment_made,     ///< the peer's attach was granted; value: the last sequence put or published
  attachment_refused,  ///< value: the weft::Code
  attachment_removed,  ///< the peer's end was detached
  closing,             ///< the owner closes the slot
  close_agreed,        ///< the peer will not touch the slot's memory any more
  credit_on_call,      ///< the writer is blocked and asked for credits
  // Slots: the other end.
  attach_asked,
  attach_granted,  ///< value: the last sequence put or published
  attach_refused,  ///< value: the weft::Code
  attach_withdrawn,
  detached,
  owner_closed,   ///< the owner has closed the slot
  credit_wanted,  ///< this rank is blocked as a writer; value: the number of the pending put
  staged_put,     ///< the first staged put; value: bytes of the put
  // Any wait.
  timeout,  ///< value: the sequence that did not arrive
  // Rendezvous: tensors whose shape is known only at run time.
  tensor_request,
  meta_data_response,
  tensor_re_request,
  error_status,
  tensor_written,
  // Any wait of 1 ms or more; value: the sequence waited for.
  waited,
  // The data path, with WEFT_RECORD=all; value: the sequence.
  put,
  arrived,
  released,
  credit_written,  ///< value: the highest sequence released
  published,
  viewed,
  // Executors of graphs, with WEFT_RECORD=all; value: the step.
  node_ran,       ///< slot: the node's number
  edge_sent,      ///< from the first look to the end; slot: the edge's slot
  edge_received,  ///< likewise
  // Collectives and messages, with WEFT_RECORD=all; slot: the group, or the messages with the peer.
  collective,  ///< from start to end; value: the call's number; peer: the root
  sent,        ///< a message; value: its number among those to the peer
  received,    ///< likewise, from the peer
  count_       // not an event
};

/// The event's name, such as "attach_granted"; "unknown" for any other number.
std::string_view name(Event event) noexcept;

}  // namespace weft::stats
