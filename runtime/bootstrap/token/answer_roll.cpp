// The other ranks' end of the roll.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "p2p/connector/call.hpp"
#include "p2p/connector/timer.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "runtime/bootstrap/token/roll.hpp"
#include "runtime/bootstrap/token/roll_records.hpp"
#include "runtime/bootstrap/token/sealed_socket.hpp"

namespace weft::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 20ms;
/// Between two times that rank 0 is called which does not listen yet.
constexpr std::chrono::milliseconds kFirstPause = 50ms;
constexpr std::chrono::milliseconds kLongestPause = 1s;

/// Calls rank 0, on a thread of its own, until it answers.
class Visit {
 public:
  explicit Visit(const Roll::Setup& setup)
      : setup_(setup),
        identity_(setup.rank, setup.size, setup.key),
        ticks_(thread_, kTick, [this](std::uint64_t) { tick(); }) {
    thread_.start();
    thread_.run([this] { ticks_.start(); });
  }
  ~Visit() { thread_.stop(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  SealedSocket wait(Deadline deadline) {
    auto pause = kFirstPause;
    for (;;) {
      const Resolved found = resolve(setup_.address);
      if (found.places.empty())
        trouble_ = found.trouble;
      else if (auto met = call(found.places, deadline))
        return std::move(*met);
      if (refusal_) refuse();
      if (deadline.left() <= pause) fail();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  /// Until rank 0 has let this one in or refused it, nobody listens there, or the deadline.
  std::optional<SealedSocket> call(const std::vector<p2p::Place>& places, Deadline deadline) {
    thread_.run([&] {
      is_nobody_there_ = false;
      call_ = std::make_unique<p2p::Call>(
          thread_, identity_, p2p::Call::Target{.rank = 0, .purpose = p2p::Purpose::roll},
          setup_.address.port, places,
          p2p::Call::Events{
              .answered =
                  [this](os::Fd socket, const p2p::Hello& own, const p2p::Hello& called) {
                    on_answered(std::move(socket), own, called);
                  },
              .short_of = [this](const Error& error) { change([&] { shortage_ = error; }); }});
      call_->begin();
    });
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.when(),
                        [this] { return met_ || refusal_ || is_nobody_there_ || shortage_; });
    lock.unlock();
    thread_.run([this] { hang_up(); });
    if (shortage_) throw Error(*shortage_);
    return std::exchange(met_, std::nullopt);
  }

  void on_answered(os::Fd socket, const p2p::Hello& own, const p2p::Hello& called) {
    const p2p::ConnectionKeys keys = identity_.keys(own, called);
    change([&] {
      met_.emplace(std::move(socket), p2p::RecordCipher(keys.to_called, keys.to_caller));
    });
    call_.reset();
  }

  void tick() {
    if (!call_) return;
    const bool is_nobody_there = call_->tick().has_value();
    const std::string& refusal = call_->refusal();
    if (!is_nobody_there && refusal.empty()) return;
    change([&] {
      is_nobody_there_ = is_nobody_there;
      if (!refusal.empty()) refusal_ = refusal;
    });
    hang_up();
  }

  /// Before the next call; rank 0 must not be called twice at a time.
  void hang_up() {
    if (call_) trouble_ = call_->text();
    call_.reset();
  }

  template <typename Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }

  [[noreturn]] void refuse() {
    throw Error(ErrorDetail{
        .code = Code::bootstrap,
        .operation = "join",
        .message = fmt::format("rank 0 at {} and this rank don't belong together: {}",
                               setup_.address.text(), *refusal_),
        .hint =
            "every rank needs the same WEFT_ADDR, WEFT_SIZE, token and weft, and a WEFT_RANK of "
            "its own",
        .rank = setup_.rank,
        .peer = 0});
  }

  [[noreturn]] void fail() {
    throw Error(ErrorDetail{
        .code = Code::timeout,
        .operation = "join",
        .message = fmt::format("rank 0 was not reached at {}: {}", setup_.address.text(), trouble_),
        .hint = "does rank 0 run, with the same WEFT_ADDR? a firewall between the hosts? "
                "WEFT_INIT_TIMEOUT sets how long joining waits",
        .rank = setup_.rank,
        .peer = 0});
  }

  const Roll::Setup setup_;
  const p2p::Identity identity_;
  p2p::ProgressThread thread_;
  std::unique_ptr<p2p::Call> call_;  ///< the progress thread's
  p2p::Timer ticks_;
  std::string trouble_ = "not tried";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SealedSocket> met_;
  std::optional<std::string> refusal_;
  std::optional<Error> shortage_;
  bool is_nobody_there_ = false;
};

class AnsweredRoll final : public Roll {
 public:
  AnsweredRoll(const Setup& setup, Deadline deadline)
      : rank_(setup.rank), size_(setup.size), keeper_(Visit(setup).wait(deadline)) {}

  Words gather(std::span<const std::byte> own, Deadline deadline) override {
    std::optional<RollRecord> record;
    try {
      keeper_.send(own, deadline);
      // Rank 0 waits as long as this rank does, and then says whom it missed.
      deadline = Deadline::at(deadline.when() + kLongestPause);
      record = parse_record(keeper_.receive(kMostRecord, deadline));
      if (record && !record->failure) {
        const auto table =
            p2p::open_message(record->key, keeper_.receive_as_it_is(most_table(size_), deadline));
        if (auto words = table ? parse_table(*table, size_) : std::nullopt)
          return *std::move(words);
        record.reset();
      }
    } catch (const Error& error) {
      end({.code = error.code(),
           .operation = "join",
           .message = "rank 0 was lost while the ranks were introduced: " + error.detail().message,
           .hint = "look at the output of rank 0",
           .peer = 0});
    }
    if (!record)
      end({.code = Code::bootstrap,
           .operation = "join",
           .message = "what rank 0 says of the others is malformed",
           .hint = "start every rank with the same weft",
           .peer = 0});
    record->failure->hint = "rank 0 says so; look at its output, and at that of the ranks named";
    end(*std::move(record->failure));
  }

 private:
  [[noreturn]] void end(ErrorDetail why) const {
    why.rank = rank_;
    throw Error(std::move(why));
  }

  const int rank_;
  const int size_;
  SealedSocket keeper_;
};

}  // namespace

std::unique_ptr<Roll> answer_roll(const Roll::Setup& setup, Deadline deadline) {
  return std::make_unique<AnsweredRoll>(setup, deadline);
}

}  // namespace weft::bootstrap
