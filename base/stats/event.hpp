// What the recorder knows of: the numbers are part of the stats segment's layout.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::stats {

enum class Event : std::uint8_t {
  none,
  // The job.
  joined,        ///< value: size of the job
  connected,     ///< the peer's path is up
  leaving,       ///< this rank leaves; value: the failed rank because of which, all ones: none
  peer_left,     ///< value: as in leaving
  peer_failed,   ///< it died without leaving
  chunk_shared,  ///< the peer was sent a chunk of this rank; value: the chunk
  chunk_mapped,  ///< a chunk of the peer was mapped; value: the chunk
  // Slots: the owner's end.
  exposed,             ///< value: depth
  attachment_made,     ///< the peer's attach was granted; value: the last sequence put or published
  attachment_refused,  ///< value: the weft::Code
  attachment_removed,  ///< the peer's end is gone
  closing,             ///< the owner closes the slot
  close_agreed,        ///< the peer will touch its memory no more
  credit_on_call,      ///< the writer is held up and asked for credits
  // Slots: the other end.
  attach_asked,
  attach_granted,  ///< value: the last sequence put or published
  attach_refused,  ///< value: the weft::Code
  attach_withdrawn,
  detached,
  owner_closed,   ///< the owner has closed the slot
  credit_wanted,  ///< this rank is held up as a writer; value: the number of the pending put
                  ///< up
  staged_put,     ///< the first put that was staged; value: the bytes of one
  // Any wait.
  timeout,  ///< value: the sequence that did not come
  // Tensors whose shape is known only at run time.
  tensor_request,
  meta_data_response,
  tensor_re_request,
  error_status,
  tensor_written,
  // Any wait that took a millisecond or more; value: the sequence that it was for.
  waited,
  // The data path, with WEFT_RECORD=all; value: the sequence.
  put,
  arrived,
  released,
  credit_written,  ///< value: the highest sequence let go
  published,
  viewed,
  count_  // not an event
};

/// "attach_granted"; "unknown" for a number that is none.
std::string_view name(Event event) noexcept;

}  // namespace weft::stats
