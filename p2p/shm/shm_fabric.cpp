#include "p2p/shm/shm_fabric.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/os/pidfd.hpp"

namespace weft::p2p {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxStrangers = 256;
constexpr std::chrono::milliseconds kTick = 100ms;
/// With a stranger; and while others wait outside.
constexpr std::chrono::seconds kPatience = 10s;
constexpr std::chrono::seconds kShortPatience = 1s;

constexpr const char* kDescriptorHint =
    "raise the limit of open files (ulimit -n): a rank needs four per rank of its host";

struct AbstractName {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// A name in the kernel's own table, not in a file system: it goes with its socket.
AbstractName abstract_name(const std::array<std::byte, 16>& token) {
  AbstractName name;
  name.address.sun_family = AF_UNIX;
  std::string text = "weft-";
  for (const std::byte b : token) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(
      ErrorDetail{.code = Code::system, .operation = "join", .message = message, .hint = hint});
}

os::Fd make_socket() {
  os::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) refuse(fmt::format("socket: {}", std::strerror(errno)), kDescriptorHint);
  return socket;
}

}  // namespace

ShmFabric::ShmFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events)
    : local_(local),
      progress_(progress),
      events_(events),
      cross_memory_(local.cross_memory),
      ticks_(progress, kTick, [this](std::uint64_t) { tick(); }) {
  released_ = local_.adopted->on_release([this](std::uint32_t chunk) {
    progress_.post([this, chunk] {
      for (const Partner& partner : partners_)
        if (partner.channel != nullptr) partner.channel->unshare(chunk);
    });
  });
}

ShmFabric::~ShmFabric() = default;

FabricVerdict ShmFabric::reaches(const RankAddress& own, const RankAddress& peer) const {
  if (own.host_id != peer.host_id)
    return {"shm", false,
            fmt::format("host {} and host {} are different machines or namespaces", own.host.data(),
                        peer.host.data())};
  if (own.uid != peer.uid)
    return {"shm", false,
            fmt::format("user {} here, user {} there: memory is shared within one user only",
                        own.uid, peer.uid)};
  return {"shm", true, "same host: one boot, one network and pid namespace"};
}

void ShmFabric::listen(RankAddress& own) {
  randombytes_buf(own.socket.data(), own.socket.size());
  unopened_ = make_socket();
  const AbstractName name = abstract_name(own.socket);
  if (::bind(unopened_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      ::listen(unopened_.get(), 4096) != 0)
    refuse(fmt::format("listening on a Unix socket: {}", std::strerror(errno)), "");
}

void ShmFabric::open(const std::vector<RankAddress>& job) {
  identity_ = Identity(local_.rank, local_.size, job[0].job_secret);
  partners_ = std::vector<Partner>(job.size());
  for (std::size_t i = 0; i < job.size(); ++i) {
    partners_[i].rank = static_cast<int>(i);
    partners_[i].address = job[i];
  }
  listener_ = Watched(progress_, std::move(unopened_), EPOLLIN,
                      [this](std::uint32_t) { accept_pending(); });
}

void ShmFabric::connect(int rank) {
  Partner& partner = partners_[static_cast<std::size_t>(rank)];
  // The higher rank connects, so that a pair meets once; a rank also connects to itself.
  if (rank <= local_.rank) call(partner);
  watch_process(partner);
}

bool ShmFabric::fence(int rank) {
  const Partner& partner = partners_[static_cast<std::size_t>(rank)];
  // Its end shows at the pidfd.
  if (partner.pidfd && os::pidfd_kill(partner.pidfd)) return true;
  local_.log->error(Subsystem::path,
                    "rank {} (pid {}) can't be killed ({}): what it can write into is never used "
                    "again",
                    rank, partner.address.pid,
                    partner.pidfd ? std::strerror(errno) : "it is a thread of this process");
  return false;
}

void ShmFabric::call(Partner& partner) {
  os::Fd socket = make_socket();
  const AbstractName name = abstract_name(partner.address.socket);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EAGAIN) {  // its backlog is full: it will have accepted some soon
      progress_.post([this, &partner] {
        try {
          call(partner);
        } catch (const Error& error) {
          events_.short_of(error);
        }
      });
      return;
    }
    if (errno == ECONNREFUSED) return events_.lost(partner.rank);  // nobody listens there now
    return events_.short_of(Error(ErrorDetail{
        .code = Code::system,
        .operation = "join",
        .message = fmt::format("connecting to rank {}: {}", partner.rank, std::strerror(errno)),
        .peer = partner.rank,
        .host = partner.address.host.data()}));
  }
  partner.links.push_back(std::make_unique<Link>(
      progress_, std::move(socket),
      [this](Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors) {
        on_message(link, bytes, std::move(descriptors));
      },
      [this](Link& link) { on_end(link); }));
  Link& link = *partner.links.back();
  link.rank = partner.rank;
  if (const std::string reason = distrust_process(link, partner.rank); !reason.empty())
    return turn_away(link, reason);
  link.introduction.caller = identity_.hello(partner.rank, Purpose::memory);
  link.introduction.stage = Link::Introduction::Stage::greeted;
  link.send(GreetMessage{.hello = link.introduction.caller});
}

void ShmFabric::accept_pending() {
  while (!paused_) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        pause();  // or it would be asked for ever
        events_.short_of(
            Error(ErrorDetail{.code = Code::exhausted,
                              .operation = "join",
                              .message = fmt::format("accepting a rank: {}", std::strerror(errno)),
                              .hint = kDescriptorHint}));
      }
      return;
    }
    auto link = std::make_unique<Link>(
        progress_, std::move(socket),
        [this](Link& from, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors) {
          on_message(from, bytes, std::move(descriptors));
        },
        [this](Link& from) { on_end(from); });
    if (link->peer_uid() != ::getuid()) {
      turn_away(*link, fmt::format("it is of user {}", link->peer_uid()));
      continue;
    }
    strangers_.push_back(std::move(link));
    if (strangers_.size() >= kMaxStrangers) pause();
    ticks_.start();
  }
}

void ShmFabric::pause() {
  paused_ = true;
  listener_.change(0);
  ticks_.start();
}

void ShmFabric::tick() {
  const auto now = Clock::now();
  const auto patience = paused_ ? kShortPatience : kPatience;
  for (const auto& stranger : strangers_)
    if (stranger->introduction.stage != Link::Introduction::Stage::refused &&
        now - stranger->introduction.since >= patience)
      turn_away(*stranger, "it did not say in time which rank it is");
  if (paused_ && strangers_.size() < kMaxStrangers) {
    paused_ = false;
    listener_.change(EPOLLIN);
  }
  if (strangers_.empty()) ticks_.stop();
}

void ShmFabric::turn_away(Link& link, const std::string& reason) {
  local_.turned_away.note(*local_.log, "the Unix socket", fmt::format("pid {}", link.peer_pid()),
                          reason);
  link.introduction.stage = Link::Introduction::Stage::refused;
  if (link.rank < 0) return drop_stranger(link);
  events_.short_of(Error(ErrorDetail{
      .code = Code::unreachable,
      .operation = "join",
      .message = fmt::format("who answers at rank {}'s Unix socket is not that rank: {}", link.rank,
                             reason),
      .hint = "every rank needs the same weft; is another program in the way?",
      .rank = local_.rank,
      .peer = link.rank}));
}

void ShmFabric::on_end(Link& link) {
  // A rank that goes in order has said so before.
  if (link.rank < 0)
    drop_stranger(link);
  else if (partners_[static_cast<std::size_t>(link.rank)].pidfd)
    events_.broken(link.rank);
  else
    events_.lost(link.rank);
}

void ShmFabric::drop_stranger(Link& link) {
  // Not at once: the link may be the caller.
  progress_.post([this, &link] {
    std::erase_if(strangers_, [&](const auto& held) { return held.get() == &link; });
  });
}

void ShmFabric::watch_process(Partner& partner) {
  if (partner.address.pid == ::getpid()) return;  // a rank of this process ends by leaving
  try {
    partner.pidfd = os::pidfd_open(partner.address.pid);
    progress_.watch(partner.pidfd.get(), EPOLLIN, [this, &partner](std::uint32_t) {
      progress_.forget(partner.pidfd.get());
      // What it said before it died comes first.
      for (std::size_t i = 0; i < partner.links.size(); ++i) partner.links[i]->drain();
      events_.lost(partner.rank);
    });
  } catch (const Error& error) {
    if (::kill(partner.address.pid, 0) != 0 && errno == ESRCH)
      events_.lost(partner.rank);
    else
      events_.short_of(error);
  }
}

}  // namespace weft::p2p
