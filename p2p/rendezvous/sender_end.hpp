// The sender's end of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "base/stats/failure_row.hpp"
#include "p2p/rendezvous/message_outbox.hpp"
#include "p2p/rendezvous/offer_table.hpp"
#include "p2p/rendezvous/session_context.hpp"
#include "p2p/rendezvous/wire.hpp"

namespace weft::p2p::rendezvous {

/// Matches this rank's offers to the peer's requests and answers these. A SessionLock guards it.
class SenderEnd {
 public:
  static constexpr std::size_t kMaxKeys = 65536;  ///< most keys that a peer may name

  SenderEnd(SessionContext& session, MessageOutbox& outbox);
  /// Waits until the fabric reads none of the offered tensors any more.
  ~SenderEnd();
  SenderEnd(const SenderEnd&) = delete;
  SenderEnd& operator=(const SenderEnd&) = delete;

  struct Offered {
    OfferTable::Outcome outcome = OfferTable::Outcome::full;
    Status status;
  };
  Offered offer(const KeyStep& at, Content& content);
  const OfferTable& offers() const noexcept { return offers_; }
  /// A copy of `tensor` in this rank's arena; counts the copied bytes.
  Tensor clone(const Tensor& tensor);
  void count_copied(std::size_t bytes) noexcept { session_.sent.bytes_copied.add(bytes); }
  /// Counts a copy from a GPU.
  void count_staged(std::size_t bytes) noexcept {
    session_.sent_from_gpu.staged_bytes.add(bytes);
    session_.sent_from_gpu.device_copies.add(1);
  }
  /// True while the caller's own tensor of that key and step is still read.
  bool lent(const KeyStep& at) const noexcept;
  /// Number of offered tensors that have not been fetched.
  std::size_t unfetched() const noexcept { return offers_.offers() + under_way_.size(); }
  /// True once after offers were dropped because the receiver was gone.
  bool take_lost() noexcept {
    lost_row_.clear();
    lost_offers_ = 0;
    return std::exchange(lost_, false);
  }
  /// The application gives the exchange up: logs dropped offers of which no serve() has told.
  void tell_lost() noexcept;

  // Messages from the peer.
  /// The peer's hello: its completion words, the notification id of the first, its request groups.
  void meet(const RemoteMemory& words, std::uint32_t notification_id, std::uint32_t groups);
  bool met() const noexcept { return !sides_.empty(); }
  void on_ask(const RequestId& id, const Ask& ask);
  void on_ask_again(const RequestId& id, const AskAgain& ask);
  void on_cancel(const RequestId& id);

  /// Releases the tensors whose puts have ended.
  void land() noexcept;
  /// Moves the tensors that the fabric had no room for.
  void move_on();
  std::size_t unmoved() const noexcept { return unmoved_.size(); }
  std::size_t under_way() const noexcept { return under_way_.size(); }
  /// Stops matching offers; refuses the requests that wait.
  void begin_close();
  /// Drops all offers: the peer takes none any more.
  void drop();

 private:
  void answer(Match match);
  void answer_error(const RequestId& id, const KeyStep& at, Code code, std::string_view text,
                    bool by_application = false);
  void move(Match match);
  Status transfer(Match& match);
  std::uint32_t key_of(const Ask& ask);
  std::uint32_t number_of(std::string_view name);
  KeyStep at(const Match& match) const noexcept;

  struct Side {  ///< a receiver's request group
    std::uint32_t generation = 0;
    std::uint32_t asked = 0;
  };
  struct UnderWay {
    std::uint64_t posted = 0;
    Match match;
  };
  static constexpr std::uint32_t kCopyDepth = 4;

  SessionContext& session_;
  MessageOutbox& outbox_;
  OfferTable offers_;
  std::vector<std::uint32_t> key_of_index_;
  std::vector<Side> sides_;
  RemoteMemory words_there_;
  std::uint32_t remote_notification_id_ = 0;
  bool closing_ = false;
  bool lost_ = false;
  std::size_t lost_offers_ = 0;  ///< dropped, which the application has not heard of
  stats::FailureRow lost_row_;
  std::deque<Match> unmoved_;        ///< matches to transfer once the fabric has room
  std::vector<UnderWay> under_way_;  ///< tensors that the fabric still reads, oldest first
};

}  // namespace weft::p2p::rendezvous
