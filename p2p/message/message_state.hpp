// All messages of a rank: the rings from and to its peers, the operations, and the waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/life.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/message/incoming_ring.hpp"
#include "p2p/message/outgoing_ring.hpp"
#include "p2p/message/posted.hpp"
#include "p2p/message/unseen_failures.hpp"
#include "p2p/progress/progress_registry.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/message.hpp"

namespace weft::detail {

/// "tag 9", with the bits that count unless all do. Throws std::bad_alloc.
std::string text_of(const Tag& tag);

class MessageState final : public p2p::Progressable {
 public:
  static constexpr bool kKeepsSlot = true;

  MessageState(p2p::LocalRank& local, p2p::Mesh& mesh);
  ~MessageState() { end(); }
  /// Requires that progress has stopped. Waits up to 20 s for puts under way. Requests are orphans
  /// from now on.
  void end() noexcept;

  // One application thread at a time, between acquire() and the end of what it returns.
  p2p::ScopedOwner<MessageState> acquire() noexcept {
    return {local_.waiter.progress_registry(), *this};
  }
  Status send(int to, std::uint64_t tag, const Tensor& tensor, Deadline deadline) noexcept;
  /// `until`: when a copy from a GPU, which comes first, must have ended.
  MessageRequest isend(int to, std::uint64_t tag, const Tensor& tensor,
                       Deadline until = {}) noexcept;
  Result<MessageInfo> recv(int from, const Tag& tag, const Tensor& into,
                           Deadline deadline) noexcept;
  MessageRequest irecv(int from, const Tag& tag, const Tensor& into) noexcept;
  Result<MessageInfo> probe(int from, const Tag& tag, Deadline deadline) noexcept;
  std::optional<MessageInfo> iprobe(int from, const Tag& tag) noexcept;
  Status wait_all(std::span<MessageRequest> requests, Deadline deadline) noexcept;
  Result<std::size_t> wait_any(std::span<MessageRequest> requests, Deadline deadline) noexcept;

  /// A request that has ended with `why`.
  static MessageRequest refused(Status why) noexcept {
    MessageRequest request;
    request.status_ = std::move(why);
    return request;
  }
  p2p::message::UnseenFailures& unseen() noexcept { return unseen_; }
  bool test(const MessageRequest& request) noexcept;
  Result<MessageInfo> wait(MessageRequest& request, Deadline deadline) noexcept;
  Status cancel(MessageRequest& request) noexcept;
  void abandon(MessageOperation& operation) noexcept;

  Deadline resolve(Deadline deadline) const noexcept {
    return deadline.resolve(local_.waiter.default_timeout());
  }
  /// Refuses further sends: this rank is leaving.
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }
  void report(std::vector<EdgeReport>& edges) const;
  bool over() const noexcept { return local_.over(); }
  bool forked() const noexcept { return local_.forked(); }
  Status refusal(const char* operation) const noexcept { return local_.refusal(operation); }

  // Any waiting thread, while no application thread holds acquire().
  p2p::ProgressResult progress(bool may_block) noexcept override;

  // Progress thread.
  static bool understands(p2p::MessageType type) noexcept {
    return type >= p2p::MessageType::ring_wanted && type <= p2p::MessageType::ring_refused;
  }
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);

 private:
  friend class p2p::ScopedOwner<MessageState>;
  using IncomingRing = p2p::message::IncomingRing;
  using OutgoingRing = p2p::message::OutgoingRing;
  using Arrived = p2p::message::Arrived;
  struct Found {
    IncomingRing* ring = nullptr;
    Arrived* arrived = nullptr;
  };

  bool busy() const noexcept {
    return !busy_.empty() || !posted_.empty() || !readings_.empty() || !copies_.empty();
  }
  /// `request`, which isend() or irecv() returns: if it has failed, that is told unless the
  /// application looks at it.
  MessageRequest watched(MessageRequest request) noexcept;

  // Sending (message_send.cpp).
  OutgoingRing* outgoing_at(int rank) const noexcept {
    return outgoing_at_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  /// isend(). A copy from a GPU ends by `until`.
  MessageRequest isend_until(int to, std::uint64_t tag, const Tensor& tensor,
                             Deadline until) noexcept;
  MessageRequest start_send(int to, std::uint64_t tag, const Tensor& tensor,
                            Deadline until) noexcept;
  // By way of host memory (message_gpu.cpp).
  MessageRequest start_send_from_gpu(int to, std::uint64_t tag, const Tensor& tensor,
                                     Deadline until) noexcept;
  Result<MessageInfo> recv_to_gpu(int from, const Tag& tag, const Tensor& into,
                                  Deadline until) noexcept;
  MessageRequest irecv_to_gpu(int from, const Tag& tag, const Tensor& into) noexcept;
  /// Begins to copy a received message to its GPU; false if it is not to go to one.
  bool begin_copy(MessageOperation& receive) noexcept;
  /// Ends the receives whose copies have ended.
  void follow_copies() noexcept;
  Status check_gpu_tensor(const char* operation, int rank, const Tensor& tensor) const noexcept;
  /// Whether the processor must not touch the tensor's elements, or there are none.
  bool is_out_of_reach(const Tensor& tensor) const noexcept {
    return lacks_host_memory(tensor) || (tensor.storage() == nullptr && is_misplaced(tensor));
  }
  bool is_misplaced(const Tensor& tensor) const noexcept;
  OutgoingRing& outgoing(int to);
  void flush() noexcept;

  // Receiving (message_receive.cpp).
  IncomingRing* incoming_at(int rank) const noexcept {
    return incoming_at_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  MessageRequest start_receive(int from, const Tag& tag, const Tensor& into) noexcept;
  Result<MessageInfo> recv_in_turn(int from, const Tag& tag, const Tensor& into,
                                   Deadline deadline) noexcept;
  bool take(IncomingRing& ring) noexcept;
  Found find_kept(int from, const Tag& tag) const noexcept;
  static MessageInfo info_of(const Found& found) noexcept;
  /// Makes the receive of a request, for the message found or for one that is to come.
  void post(MessageRequest& request, const Found& found, int from, const Tag& tag,
            const Tensor& into, const Tensor& on_gpu) noexcept;
  /// Whether a message can be received into `into`: its size and element type.
  static bool fits(const Arrived& arrived, const Tensor& into) noexcept {
    return arrived.bytes <= into.bytes() &&
           (arrived.dtype == into.dtype() || into.dtype() == DType::u8);
  }
  /// True if the message ends its receive at once: its payload lies in the ring, or does not fit.
  static bool is_at_hand(const Arrived& arrived, const Tensor& into) noexcept {
    return arrived.data != nullptr || !fits(arrived, into);
  }
  Result<MessageInfo> deliver(IncomingRing& ring, Arrived& arrived, const Tensor& into) noexcept;
  Result<MessageInfo> drop_unfit(IncomingRing& ring, Arrived& arrived, const Tensor& into) noexcept;
  Result<MessageInfo> recv_offered(IncomingRing& ring, Arrived& arrived, const Tensor& into,
                                   Deadline deadline) noexcept;

  // Reading offered payloads (message_reading.cpp).
  /// Matches the message to `receive`.
  void accept(IncomingRing& ring, Arrived& arrived, MessageOperation& receive) noexcept;
  void go_on_reading() noexcept;
  void read(MessageOperation& receive) noexcept;
  std::optional<Status> start_reading(MessageOperation& receive) noexcept;
  std::optional<Result<p2p::RemoteMemory>> find_offered(IncomingRing& ring,
                                                        const Arrived& arrived) noexcept;
  void end_reading(MessageOperation& receive, Status status) noexcept;
  void end_broken(MessageOperation& receive) noexcept;
  /// Undoes accept(): the receive takes nothing, and the message is the next of its ring again.
  void put_back(MessageOperation& receive) noexcept;
  /// The reason why no more messages will come from `from`; ok if more may come.
  Status no_more_from(int from) noexcept;
  void fail_posted(int from, const Status& why) noexcept;
  void on_ring_wanted(p2p::Peer& peer, std::span<const std::byte> bytes);

  // Both directions.
  Status check(const char* operation, int rank) const noexcept;
  Status check(const char* operation, int rank, const Tensor& tensor) const noexcept;
  /// Takes arrived messages, sends queued ones, and ends the operations of peers that are gone.
  void progress() noexcept;
  void take_in_turn() noexcept;
  void notice_gone(std::uint32_t gone) noexcept;
  /// `what` is waited for: an operation, several requests, or what a probe looks for.
  template <typename Ready, typename What>
  p2p::WaitEnd wait_until(const Ready& ready, Deadline deadline, const What& what) noexcept;
  // How tools see a wait (message_waits.cpp). Cheap, without allocation.
  struct Probed {
    int from;
    Tag tag;
  };
  stats::WaitAbout about(stats::WaitDetails& details,
                         const MessageOperation& operation) const noexcept;
  stats::WaitAbout about(stats::WaitDetails& details,
                         std::span<const MessageRequest> requests) const noexcept;
  stats::WaitAbout about(stats::WaitDetails& details, const Probed& probed) const noexcept;
  stats::WaitAbout about_receive(stats::WaitDetails& details, int from,
                                 const Tag& tag) const noexcept;
  MessageOperation& take_operation(int peer, const Tag& tag, const Tensor& tensor);
  void end(MessageOperation& operation) noexcept;
  void give_back(MessageOperation& operation) noexcept;
  /// Whether something under way will end without ringing the doorbell.
  bool awaits_in_silence() const noexcept { return held_up_ || awaits_news_ || !copies_.empty(); }
  /// The operation's outcome; returns the operation to the free list.
  Result<MessageInfo> finish(MessageOperation& operation) noexcept;
  Status late(const MessageOperation& operation) const noexcept;
  std::string source_text(int from) const noexcept;
  /// Mesh::suspicion(); empty for kAnySource.
  std::string suspicion(int from) const noexcept;
  Status failure(Code code, const char* operation, int peer, std::string_view message,
                 std::string_view hint) const noexcept;
  Status gone(const char* operation, int peer) const noexcept;

  /// Ends the requests whose own world has gone.
  static void notice_orphans(std::span<MessageRequest> requests) noexcept {
    for (MessageRequest& request : requests)
      if (request.operation_ != nullptr) request.orphaned();
  }
  /// `request` follows the operation.
  void follow(MessageRequest& request, MessageOperation& operation) noexcept {
    request.state_ = this;
    request.life_ = life_.word();
    request.mark_ = life_.mark();
    request.operation_ = &operation;
  }

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Life life_;  ///< of all, for requests
  p2p::message::UnseenFailures unseen_;
  bool has_ended_ = false;
  std::unique_ptr<std::atomic<OutgoingRing*>[]> outgoing_at_;  ///< by rank
  std::unique_ptr<std::atomic<IncomingRing*>[]> incoming_at_;
  std::atomic<IncomingRing*> rings_{nullptr};  ///< list of all incoming rings
  std::atomic<bool> stopped_{false};

  std::vector<std::unique_ptr<OutgoingRing>> outgoing_;
  std::vector<OutgoingRing*> busy_;  ///< rings with queued or offered messages
  bool held_up_ = false;             ///< one of `busy_` waits for something that rings no doorbell
  p2p::message::PostedTable posted_;
  p2p::message::OperationList readings_;
  bool awaits_news_ = false;            ///< one of `readings_` waits for what rings no doorbell
  p2p::message::OperationList copies_;  ///< to GPUs; their ends ring no doorbell
  IncomingRing* next_ring_ = nullptr;   ///< where the next round of polling starts
  std::size_t next_any_ = 0;            ///< where the next wait_any() starts
  std::uint64_t kept_order_ = 0;
  std::uint32_t gone_seen_ = 0;
  std::deque<MessageOperation> operations_;
  p2p::message::OperationList free_;

  mutable std::mutex report_mutex_;  ///< guards growth of both owners against report()
  std::vector<std::unique_ptr<IncomingRing>> incoming_;  ///< progress thread only
};

}  // namespace weft::detail
