// The receiver's end of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "p2p/rendezvous/message_outbox.hpp"
#include "p2p/rendezvous/request_groups.hpp"
#include "p2p/rendezvous/session_context.hpp"
#include "p2p/rendezvous/wire.hpp"

namespace weft::p2p::rendezvous {

/// A caller's request: an item, the reason why there is none, or the outcome.
struct Ticket {
  Item* item = nullptr;
  Status refused;
  std::optional<Result<Received>> outcome;

  bool done() const noexcept { return outcome || (item == nullptr ? !refused.ok() : item->done()); }
  /// Whether a request is done, and its copy to the GPU, if it needs one, has not ended yet.
  bool may_need_gpu() const noexcept {
    return !outcome && item != nullptr && item->done() && !item->to_gpu.outcome;
  }
};

/// Requests tensors of the peer, allocates memory for them, and keeps the requests until their
/// outcome is known. The peer writes completions into this end's words. A SessionLock guards it.
class ReceiverEnd {
 public:
  static constexpr std::uint32_t kGroups = 64;
  /// Most requests that wait for their tensors at a time; further ones are put off.
  static constexpr std::uint32_t kMostRequests = kGroups * kGroupItems;

  ReceiverEnd(SessionContext& session, MessageOutbox& outbox);
  /// Ends the peer's use of the words. Requires that no request is live.
  ~ReceiverEnd();
  ReceiverEnd(const ReceiverEnd&) = delete;
  ReceiverEnd& operator=(const ReceiverEnd&) = delete;

  /// Makes the words known to the peer; false if the peer can't map their memory. Progress thread.
  bool share();
  /// Notes that the peer knows this chunk of this rank's memory.
  void add_known_chunk(std::uint32_t chunk) { known_chunks_.insert(chunk); }
  /// The hello that names the words, after share().
  Hello hello() const noexcept;

  /// Requests wanted[next] and the following ones while groups are free; advances `next`. If groups
  /// run out, finishes tickets that are done to free theirs.
  void ask(std::span<const KeyStep> wanted, std::span<Ticket> tickets, std::size_t& next);
  /// The outcome of a request. A request that is not done is left behind: it stays, without a
  /// waiting thread.
  Result<Received> finish(const KeyStep& at, Ticket& ticket);
  /// Begins to copy a tensor that has arrived to the GPU of the spec, or looks after that. True if
  /// there is nothing to copy, or the copy has ended, well or not. Requires a request that is done.
  bool bring_to_gpu(Item& item) noexcept;
  /// Leaves a request behind that no thread waits for any more, done or not.
  void leave(const Ticket& ticket);
  Status cancel(const KeyStep& at);
  /// Number of requests whose memory the peer may write.
  std::size_t live() const noexcept { return requests_.live(); }
  /// Number of requests that no thread waits for.
  std::size_t left_behind() const noexcept { return left_behind_; }

  // Messages from the peer.
  void on_metadata(const RequestId& id, const MetadataAnswer& answer);
  void on_error(const RequestId& id, const ErrorAnswer& answer);

  /// Releases the cancelled requests that are done.
  void reap() {
    if (cancelled_ != 0) release_cancelled();
  }
  /// Cancels the requests that no thread waits for.
  void begin_close();
  /// Releases the requests that no thread waits for and that have not arrived. Requires that the
  /// peer writes no more.
  void drop();

 private:
  void ask_while_free(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                      std::size_t& next);
  bool ask_in_one_message(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                          std::size_t& next);
  bool take_known(const KeyStep& at, Ticket& ticket);
  Result<Tensor> make_room(const Metadata& metadata);
  MemoryRef place_of(const Tensor& result) const noexcept;
  bool peer_knows(std::uint32_t chunk) const noexcept { return known_chunks_.contains(chunk); }
  void learn_chunk(const Item& item);
  /// Whether the result of a request that is done goes on to a GPU.
  bool goes_to_gpu(const Item& item) const noexcept {
    return session_.spec.memory.is_gpu() && item.failure.ok() && item.metadata.codec == 0 &&
           item.metadata.bytes() != 0 && item.result.bytes() == item.metadata.bytes();
  }
  /// The tensor there. Where it is not there yet, the request is left behind, and this says why.
  Result<Tensor> take_from_gpu(const KeyStep& at, Item& item);
  void send_cancel(Item& item);
  void release_cancelled();
  KeyStep at(const Item& item) const noexcept;

  SessionContext& session_;
  MessageOutbox& outbox_;
  std::shared_ptr<OwnedBlock> words_;  ///< shared, so that ending their use needs no memory
  std::optional<std::uint32_t> notification_id_;  ///< of the first word, on the channel
  RequestGroups requests_;
  std::set<std::uint32_t> known_chunks_;
  std::size_t left_behind_ = 0;
  std::size_t cancelled_ = 0;
};

}  // namespace weft::p2p::rendezvous
