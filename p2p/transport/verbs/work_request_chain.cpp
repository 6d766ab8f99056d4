#include "p2p/transport/verbs/work_request_chain.hpp"

#include <algorithm>

namespace weft::p2p::verbs {

ibv_send_wr& WorkRequestChain::open_request() noexcept {
  ibv_send_wr& request = requests_[count_];
  request = {};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.sg_list = pieces_[count_].data();
  request.wr.rdma.remote_addr = to_.address + moved_;
  request.wr.rdma.rkey = to_.key;
  if (count_ > 0) requests_[count_ - 1].next = &request;
  ++count_;
  room_ = max_message_;
  return request;
}

void WorkRequestChain::take(MemoryPiece& piece) noexcept {
  while (piece.bytes > 0) {
    const bool open =
        count_ > 0 && room_ > 0 && static_cast<std::uint32_t>(last().num_sge) < pieces_per_request_;
    if (!open && is_full()) return;
    ibv_send_wr& request = open ? last() : open_request();
    const std::size_t bytes = std::min<std::uint64_t>(piece.bytes, room_);
    request.sg_list[request.num_sge++] = {reinterpret_cast<std::uint64_t>(piece.data),
                                          static_cast<std::uint32_t>(bytes), piece.key};
    piece.data += bytes;
    piece.bytes -= bytes;
    room_ -= bytes;
    moved_ += bytes;
  }
}

void WorkRequestChain::add_empty() noexcept { open_request(); }

void WorkRequestChain::send_inline() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) requests_[i].send_flags |= IBV_SEND_INLINE;
}

void PayloadCursor::fill(WorkRequestChain& chain) noexcept {
  chain.begin(to);
  for (; !pieces.empty(); pieces = pieces.subspan(1), done = 0) {
    const MemoryPiece& whole = pieces.front();
    MemoryPiece rest{whole.data + done, whole.bytes - done, whole.key, whole.adopted};
    chain.take(rest);
    done = whole.bytes - rest.bytes;
    if (rest.bytes != 0) break;
  }
  to = chain.next();
}

}  // namespace weft::p2p::verbs
