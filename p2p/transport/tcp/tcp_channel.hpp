// The path to one peer by TCP.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/channel.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/path_end.hpp"
#include "p2p/transport/remote_chunks.hpp"
#include "p2p/transport/tcp/exports.hpp"
#include "p2p/transport/tcp/lanes.hpp"
#include "p2p/transport/tcp/message_inbox.hpp"
#include "p2p/transport/tcp/pending_gets.hpp"
#include "p2p/transport/tcp/pipe.hpp"
#include "p2p/transport/tcp/record_reader.hpp"
#include "p2p/transport/tcp/send_queue.hpp"
#include "p2p/transport/tcp/silence.hpp"
#include "p2p/transport/tcp/sockets.hpp"
#include "p2p/transport/tcp/wire.hpp"
#include "p2p/transport/wireup/first_use.hpp"

namespace weft::p2p::tcp {

/// State that the fabric of a rank shares with all its channels.
struct TcpRank {
  LocalRank& local;
  Sockets& sockets;
  /// Any thread, and does not throw: the path is no good any more. `ended`: its connection was
  /// closed, which is no news by itself.
  std::function<void(int peer, bool ended, const Status& why)> broke;
  /// Any thread: control messages of the peer have come; take them by take_messages().
  std::function<void(int peer)> has_message;
  /// Any thread: one of several rails has failed; TcpChannel::lose_rail() is to be called.
  std::function<void(int peer, std::size_t rail, std::uint32_t connection, const Status& why)>
      rail_broke;
  /// Any thread: the peer tells of a rail; TcpChannel::on_rail_said() is to be called.
  std::function<void(int peer, const Head& head)> rail_said;
  FirstUse& first_use;
};

/// News of a rail for the fabric.
struct RailEvent {
  /// joined: up for the first time; replaced: down and up again at once.
  enum class Kind : std::uint8_t { none, joined, down, up, replaced, path_lost };
  Kind kind = Kind::none;
  std::size_t rail = 0;
  std::string why = {};    ///< joined: this end's address
  IpAddress address = {};  ///< of the peer
  Status status = {};      ///< path_lost: it was the last one
};

/// A RemoteMemory is an offset in a chunk of the peer, which the peer checks itself.
class TcpChannel final : public Channel, private GetEngine {
 public:
  /// Until open(), what is to be sent waits. `rank` must outlive it.
  TcpChannel(TcpRank& rank, int peer);
  ~TcpChannel() override;

  /// Progress thread, once: the connections, one for each rail. Sends what waited.
  /// With `checksums` every record bears one, here and there.
  void open(std::vector<Pipe> rails, bool checksums);
  /// As that, for several rails whose connections come one by one, by renew_rail(). Sending
  /// waits for the first one.
  void open(std::size_t rails, bool checksums);

  Status put(PutWork& work) noexcept override;
  std::optional<Status> poll_put(std::uint64_t posted) noexcept override;
  void get(Get& get) noexcept override;
  void put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept override;
  void notify() noexcept override;
  void send(std::span<const std::byte> message) override;
  Result<RemoteMemory> resolve(const MemoryRef& ref) noexcept override {
    return chunks_.resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override;
  std::vector<RailReport> rails() const override;
  std::byte* map(RemoteMemory) noexcept override { return nullptr; }

  /// Progress thread: hands over the messages that have come.
  void take_messages(const std::function<void(std::span<const std::byte>)>& take);
  /// Progress thread: tells the peer that adopted memory is gone, if the peer knew it.
  void unshare(std::uint32_t chunk);
  /// Any thread: the memory goes to its user once this has returned.
  void retract(std::uint32_t chunk) noexcept;
  /// Any thread: nothing of the peer arrives any more, and every operation fails with `why`.
  void fail(Status why) noexcept;
  /// Progress thread: whether anything has come since it was last asked.
  bool take_heard() noexcept;
  /// Whether the peer has got all that was posted before this was first asked; asks it.
  bool is_idle() noexcept;
  /// Progress thread: takes what the peer had sent before its end. Whether that has come.
  bool drain() noexcept;
  /// Progress thread: the connections are looked at no more.
  void unwatch() noexcept;

  // Of several rails; all by the progress thread.
  /// The rail has failed, if this is still its connection: its share goes by the others once the
  /// peer knows.
  RailEvent lose_rail(std::size_t rail, std::uint32_t connection, std::string why);
  /// A record of the peer's about a rail.
  RailEvent on_rail_said(const Head& head);
  /// A rail that was lost, or never was, has a connection; `called` by this end, it is up at once.
  RailEvent renew_rail(std::size_t rail, Pipe pipe, bool called);
  /// Gives up a rail whose data was not acknowledged for `patience`, if another one works; the
  /// path, if the peer's host has closed one and the others are silent. Called again and again;
  /// `since_last` call.
  RailEvent check_rails(std::chrono::nanoseconds since_last, std::chrono::nanoseconds patience);
  bool has_several_rails() const noexcept { return lanes_ != nullptr; }

 private:
  enum class State : std::uint8_t { unopened, open, failed };
  // A flag in `posted` besides the number: poll_put() waits for the peer's ack.
  static constexpr std::uint64_t kDelivered = std::uint64_t{1} << 63;
  static constexpr std::size_t kMostWaiting = 64;  ///< puts; others always have room
  static constexpr std::size_t kMostRuns = 256;    ///< of a put that is not packed
  /// Sent or received at a time, so that others get their turn: a mebibyte, with what is before and
  /// behind it.
  static constexpr std::size_t kTurn = (1u << 20) + (1u << 10);

  /// A larger put goes out in records of this size, which takes no more system calls: a credit
  /// waits for no more than one of them.
  static constexpr std::size_t kPart = 4u << 20;
  static constexpr std::size_t kPartsAtOnce = 2;  ///< by the thread that puts

  /// fencing: given up here, and the peer's word is to come; proving: connected anew by the peer,
  /// whose first record is to come.
  enum class Link : std::uint8_t { up, fencing, down, proving };

  /// One connection, or one after another.
  struct Rail final : Ready, RecordSink {
    Rail(TcpChannel& owner, Pipe connection, std::size_t number);

    bool receive() noexcept override { return channel.receive(*this); }
    bool flush() noexcept override { return channel.flush_rail(*this); }
    bool waits_for_room() const noexcept override { return waits.load(std::memory_order_relaxed); }
    bool accepts(const Head& head) override { return channel.is_undamaged(head); }
    bool begin(const Head& head, std::uint64_t already, std::vector<iovec>& places) override {
      return channel.begin_record(*this, head, already, places);
    }
    bool end(const Head& head) override { return channel.end_record(*this, head); }
    void malformed(const char* trouble) override { channel.malformed(trouble); }

    TcpChannel& channel;
    const std::size_t index;
    Pipe pipe;
    IpAddress own;  ///< all zero: it is no connection over IP
    IpAddress peer;
    SendQueue out;
    RecordReader in;
    std::atomic<bool> waits{false};  ///< something waits for room
    bool is_watched = false;         ///< the progress thread's

    // Of several rails. Changed under both locks, read under either.
    std::atomic<Link> link{Link::up};
    std::uint32_t connection = 0;  ///< counts the rail's connections
    std::string why;               ///< it was lost
    bool is_untold = false;        ///< fencing, and the peer is to be told
    /// proving, and the first record is to tell what the peer took of the connection before.
    bool is_owed = false;
    bool was_replaced = false;  ///< it has told that, and the fabric is to hear of it
    std::uint64_t told = 0;     ///< records finished of the connection before
    // The receiving side's.
    bool reads = true;
    bool tells = false;          ///< the peer is to hear what was taken
    std::uint64_t finished = 0;  ///< records of this connection
    std::uint64_t reported = 0;  ///< of these
    struct Reply {
      std::uint64_t get = 0;
      std::size_t piece = 0;
      std::uint64_t done = 0;
    };
    std::optional<Reply> reply;           ///< that is under way, as the get was before it
    std::atomic<bool> was_closed{false};  ///< by the peer's host
    // The progress thread's.
    bool has_been_up = true;

    bool is_in_use() const noexcept {
      return link.load() == Link::up || link.load() == Link::proving;
    }
  };
  bool is_open() const noexcept { return state_.load(std::memory_order_acquire) == State::open; }
  bool has_failed() const noexcept {
    return state_.load(std::memory_order_acquire) == State::failed;
  }
  Status broken(const char* operation) const { return end_.refusal(operation); }
  Status full() const noexcept;
  std::optional<Status> outcome_of(std::uint64_t number, bool delivered) noexcept;
  Head summed(Head head, std::span<const iovec> parts) const noexcept;

  // sending.cpp; with sending_.mutex held, but for the first ones.
  struct Payload;
  Status collect(PutWork& work, Payload& payload) noexcept;
  bool flush_rail(Rail& rail) noexcept;
  void flush() noexcept;
  void after_sending(Rail& rail) noexcept;
  /// Without memory to remember it, the path is given up.
  void transmit(const Head& head, std::span<const std::byte> payload) noexcept;
  void post(Head head, std::span<const std::byte> payload = {});
  Rail& main_rail() noexcept { return *rails_[main_]; }
  Status send_put(Rail& rail, const Head& head, std::span<const iovec> runs, OwnedBlock packed,
                  bool at_once);
  Status send_record(Rail& rail, const Head& unsummed, std::span<const iovec> runs,
                     OwnedBlock packed, bool may_be_full, bool at_once);

  static std::size_t take_runs(std::span<const iovec>& runs, std::size_t& skipped,
                               std::uint64_t bytes, std::span<iovec> some) noexcept;
  bool open_rails(std::vector<std::unique_ptr<Rail>> rails, bool checksums);
  void watch(Rail& rail);
  void unwatch(Rail& rail) noexcept;

  // lanes.cpp; with sending_.mutex held, but for the last two.
  bool is_to_be_striped(const Payload& payload) const noexcept;
  Status put_by_lanes(PutWork& work, const Head& unsummed, Payload& payload) noexcept;
  std::uint64_t add_striped(const Head& put, const iovec& run);
  void add_put(const Head& put, Payload& payload, std::uint64_t number);
  Record& lane_record(const Head& head);
  void transmit_by_lanes(const Head& unsummed, std::span<const std::byte> payload,
                         bool may_overtake) noexcept;
  void send_by(Rail& rail, const Head& head) noexcept;
  Record* find_waiting(Kind kind, std::uint64_t address, std::uint32_t key) noexcept;
  void flush_main() noexcept;
  void feed(Rail& rail);
  void feed_or_give_up(Rail& rail) noexcept;
  void feed_all();
  void release_held();
  bool drop_taken(Rail& rail, std::uint64_t count);
  std::optional<Status> outcome_by_lanes(std::uint64_t number) noexcept;
  bool is_idle_by_lanes() noexcept;

  // rails.cpp; with both mutexes held, but for the last three.
  bool has_other_rail(const Rail& rail) const noexcept;
  std::optional<std::size_t> first_up() const noexcept;
  void fence_rail(Rail& rail, std::string why);
  void tell_down(Rail& lost, Rail& by) noexcept;
  bool send_again(Rail& rail, std::uint64_t taken, Link then);
  void move_main();
  void use_rail(Rail& rail);
  RailEvent is_up(Rail& rail);
  void keep_for_later(const Head& head);
  RailEvent on_rail_down(Rail& rail, const Head& head);
  static RailSign sign_of(const Rail& rail) noexcept;
  void ask(Rail& rail) noexcept;

  // Of several rails; with receiving_.mutex held.
  bool end_by_lanes(Rail& rail, const Head& head);
  bool on_taken(Rail& rail, std::uint64_t count);
  bool on_rail_up(Rail& rail, const Head& head);
  void tell_taken(Rail& rail);
  void count_finished(Rail& rail, const Head& head) noexcept;
  bool settle_stripes();
  void mark_reply(Rail& rail, const Head& head) noexcept;

  // receiving.cpp; with receiving_.mutex held, but for receive().
  bool receive(Rail& rail) noexcept;
  bool begin_record(Rail& rail, const Head& head, std::uint64_t already,
                    std::vector<iovec>& places);
  bool end_record(Rail& rail, const Head& head);
  bool end_one(const Head& head);
  bool begin_reply(const Head& head, std::vector<iovec>& places);
  bool end_put(const Head& head);
  bool end_get(const Head& head);
  bool set_word(const Head& head);
  bool is_whole(const Head& head);
  bool is_undamaged(const Head& head);
  std::byte* place_of_put(const Head& head) const noexcept;
  bool damaged(const Head& head, std::uint64_t expected, std::uint64_t found);
  void malformed(const char* trouble);
  bool give_up(std::string_view what) noexcept;

  // gets.cpp
  std::optional<Status> poll_get(Get& get) noexcept override;
  bool cancel_get(Get& get) noexcept override;
  void ask(Get& get) noexcept;

  TcpRank& rank_;
  const int peer_;
  Exports exports_;                 ///< what the peer may name
  NotificationTable words_;         ///< that its puts set
  std::set<std::uint32_t> shared_;  ///< the progress thread's: chunks that the peer knows

  RemoteChunks chunks_{peer_};

  /// The sending side; `mutex` is taken after the receiving side's.
  struct Sending {
    mutable std::mutex mutex;
    std::vector<std::pair<Head, std::vector<std::byte>>> unsent;  ///< until there is a connection
    std::uint64_t ack_asked = 0;                                  ///< for all up to this one
    std::optional<std::uint64_t> last_said;                       ///< of a rank that goes
  };
  /// The receiving side.
  struct Receiving {
    std::mutex mutex;
    std::array<std::byte, kMostMessage> message;  ///< or a get's pieces, as they come
    std::deque<Head> striped;                     ///< puts whose pieces have not all come
    std::array<std::uint64_t, 256> pieces{};      ///< that have come, by the stripe's low bits
    bool brought = false;                         ///< something that a waiting thread may want
  };
  Sending sending_;
  Receiving receiving_;
  PendingGets gets_;
  MessageInbox inbox_;
  std::atomic<std::uint64_t> acked_{0};

  PathEnd end_{peer_};
  std::atomic<State> state_{State::unopened};
  std::atomic<bool> heard_{false};
  std::atomic<bool> is_over_{false};  ///< nothing is received any more

  bool checksums_ = false;                    ///< set by open()
  std::unique_ptr<Lanes> lanes_;              ///< set by open(), for several rails
  std::size_t main_ = 0;                      ///< the rail of all records but pieces
  std::vector<Head> later_;                   ///< the progress thread's: told too early
  SilenceJudge silence_;                      ///< the progress thread's
  std::vector<std::unique_ptr<Rail>> rails_;  ///< set by open(); the first to go
};

}  // namespace weft::p2p::tcp
