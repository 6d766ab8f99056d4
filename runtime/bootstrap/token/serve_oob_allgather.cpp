// The out-of-band allgather on rank 0.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/os/descriptor_limit.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/wireup/acceptor.hpp"
#include "runtime/bootstrap/token/oob_allgather.hpp"
#include "runtime/bootstrap/token/oob_records.hpp"
#include "runtime/bootstrap/token/sealed_socket.hpp"

namespace weft::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 50ms;
constexpr std::chrono::seconds kPatience{10};  ///< for a client to authenticate
/// Time to tell the others why the job does not start.
constexpr std::chrono::seconds kDrainTimeout{2};
constexpr std::size_t kMostNamed = 16;

/// "rank 2, rank 5"; the first kMostNamed, and how many there are besides.
std::string names_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i)
    text += fmt::format("{}rank {}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

/// The IP address at the other end of `socket`.
std::string peer_of(const os::Fd& socket) {
  p2p::SocketAddress from;
  if (::getpeername(socket.get(), from.get(), &from.size) != 0) return "an address unknown";
  return p2p::text(p2p::ip_address_of(*from.get()));
}

/// Accepts the other ranks, on a thread of its own, until all have arrived.
class Reception {
 public:
  Reception(const OobAllgather::Setup& setup, Log& log)
      : identity_(0, setup.size, setup.key),
        log_(log),
        port_(setup.address.port),
        acceptor_(thread_, log, rejected_connections_, kPatience,
                  {.came = [this](const p2p::Handshake& client, const p2p::Handshake& own,
                                  os::Fd& socket) { return on_came(client, own, socket); },
                   .short_of = [this](const Error& error) { change([&] { shortage_ = error; }); },
                   .wants_ticks = [this] { ticks_.start(); }}),
        ticks_(thread_, kTick, [this](std::uint64_t) {
          if (!acceptor_.tick()) ticks_.stop();
        }) {}
  ~Reception() { thread_.stop(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  void open(const std::vector<p2p::IpAddress>& ips, std::uint16_t port) {
    (void)acceptor_.listen(ips, port);
    thread_.start();
    thread_.run([this] { acceptor_.open(identity_); });
  }

  /// Waits until all ranks have arrived, until this rank lacks what it needs to accept them, or
  /// until the deadline. Returns those that have arrived, by rank.
  std::map<int, SealedSocket> wait(Deadline deadline) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, deadline.when(), [this] {
        if (shortage_) return true;
        if (!all_have_come()) return false;
        drop_ended();
        return all_have_come();
      });
      if (!all_have_come()) drop_ended();
    }
    thread_.stop();
    return std::move(members_);
  }

  std::uint64_t rejected_connections() const { return rejected_connections_.count(); }
  const std::optional<Error>& shortage() const { return shortage_; }
  /// Ranks that arrived and ended before all were there.
  const std::set<int>& ended() const { return ended_; }

 private:
  bool all_have_come() const {
    return static_cast<int>(members_.size()) == identity_.job_size() - 1;
  }

  /// Requires mutex_. Forgets ranks that have ended since, so that they can be started again.
  void drop_ended() {
    std::erase_if(members_, [this](auto& member) {
      const bool is_gone = !member.second.is_open();
      if (is_gone) ended_.insert(member.first);
      return is_gone;
    });
  }

  template <typename Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }

  std::string on_came(const p2p::Handshake& client, const p2p::Handshake& own, os::Fd& socket) {
    if (client.purpose != p2p::Purpose::oob_allgather)
      return "rank 0 still waits for ranks to arrive";
    std::string reason;
    change([&] {
      const auto known = members_.find(client.from);
      // A rank that was started again replaces its predecessor that ended.
      if (known != members_.end() && !known->second.is_open())
        members_.erase(known);
      else if (known != members_.end()) {
        reason = fmt::format("another process is rank {} already", client.from);
        rejected_connections_.note(log_, fmt::format("port {}", port_), peer_of(socket), reason);
        return;
      }
      if (!p2p::send_record(socket.get(), std::uint16_t{0})) return;  // the client connects again
      const p2p::ConnectionKeys keys = identity_.keys(client, own);
      members_.emplace(
          client.from,
          SealedSocket(std::move(socket), p2p::RecordCipher(keys.to_client, keys.to_server)));
    });
    return reason;
  }

  const p2p::Identity identity_;
  Log& log_;
  const std::uint16_t port_;
  p2p::RejectedConnections rejected_connections_;
  p2p::ProgressThread thread_;
  p2p::Acceptor acceptor_;
  p2p::Timer ticks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, SealedSocket> members_;
  std::set<int> ended_;
  std::optional<Error> shortage_;
};

class RootOobAllgather final : public OobAllgather {
 public:
  RootOobAllgather(const Setup& setup, const Config& config, Log& log, Deadline deadline)
      : size_(setup.size) {
    if (size_ == 1) return;
    os::raise_descriptor_limit();
    Reception reception(setup, log);
    const auto ips = own_ips(setup.address, resolve(setup.address), config.text(Setting::iface));
    reception.open(ips, setup.address.port);
    log.info(Subsystem::boot, "waiting for {} ranks at {}", size_ - 1, setup.address.text());
    members_ = reception.wait(deadline);
    rejected_connections_ = reception.rejected_connections();
    if (static_cast<int>(members_.size()) == size_ - 1) return;
    if (reception.shortage()) {
      ErrorDetail lacks = reception.shortage()->detail();
      lacks.operation = "join";
      lacks.rank = 0;
      end(lacks);
    }
    std::vector<int> absent;
    std::vector<int> ended;
    for (int rank = 1; rank < size_; ++rank)
      if (!members_.contains(rank))
        (reception.ended().contains(rank) ? ended : absent).push_back(rank);
    std::string message;
    if (!absent.empty())
      message = fmt::format("never arrived at {}: {}", setup.address.text(), names_of(absent));
    if (!ended.empty())
      message += fmt::format("{}arrived, but ended before all others arrived: {}",
                             absent.empty() ? "" : "; ", names_of(ended));
    if (rejected_connections_ > 0)
      message += fmt::format("; {} connection(s) were rejected", rejected_connections_);
    end({.code = Code::timeout,
         .operation = "join",
         .message = std::move(message),
         .hint = "look at the output of these ranks, or of the rejected processes; "
                 "WEFT_INIT_TIMEOUT sets how long joining waits",
         .rank = 0,
         .peer = (absent.empty() ? ended : absent).front()});
  }

  Contributions gather(std::span<const std::byte> own, Deadline deadline) override {
    Contributions words(static_cast<std::size_t>(size_));
    words[0].assign(own.begin(), own.end());
    for (auto& [rank, member] : members_) {
      SealedSocket& from = member;
      auto& said = words[static_cast<std::size_t>(rank)];
      talk(rank, "before its contribution arrived",
           [&] { said = from.receive(kMaxContribution, deadline); });
    }
    const p2p::MessageKey key = p2p::draw_message_key();
    const auto record = table_record(key);
    const auto table = p2p::seal_message(key, table_of(words));
    for (auto& [rank, member] : members_) {
      SealedSocket& to = member;
      talk(rank, "before it received the other ranks' contributions", [&] {
        to.send(record, deadline);
        to.send_as_it_is(table, deadline);
      });
    }
    return words;
  }
  std::uint64_t rejected_connections() const noexcept override { return rejected_connections_; }

 private:
  template <typename Talk>
  void talk(int rank, const char* when, const Talk& body) {
    try {
      body();
    } catch (const Error& error) {
      end({.code = error.code(),
           .operation = "join",
           .message = fmt::format("rank {} was lost {}: {}", rank, when, error.detail().message),
           .hint = "look at the output of that rank",
           .rank = 0,
           .peer = rank});
    }
  }

  /// Tells the others why the job does not start.
  [[noreturn]] void end(const ErrorDetail& why) {
    const auto record = failure_record(why);
    const auto deadline = Deadline::after(kDrainTimeout);
    for (auto& [rank, member] : members_) {
      try {
        member.send(record, deadline);
      } catch (const Error&) {
        continue;  // the lost rank itself, or another lost one
      }
    }
    members_.clear();
    throw Error(why);
  }

  const int size_;
  std::uint64_t rejected_connections_ = 0;
  std::map<int, SealedSocket> members_;  ///< by rank
};

}  // namespace

std::unique_ptr<OobAllgather> serve_oob_allgather(const OobAllgather::Setup& setup,
                                                  const Config& config, Log& log,
                                                  Deadline deadline) {
  return std::make_unique<RootOobAllgather>(setup, config, log, deadline);
}

}  // namespace weft::bootstrap
