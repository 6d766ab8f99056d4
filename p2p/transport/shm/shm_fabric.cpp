#include "p2p/transport/shm/shm_fabric.hpp"

#include <fmt/format.h>
#include <sched.h>
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
#include <functional>
#include <limits>

#include "base/fail.hpp"
#include "base/os/descriptor_limit.hpp"
#include "base/os/pidfd.hpp"
#include "p2p/transport/shm/shm_address.hpp"

namespace weft::p2p {
namespace {

using namespace std::chrono_literals;

/// Connections of processes that are no ranks. A rank of another job is told so: that is all they
/// are kept for.
constexpr std::size_t kMaxPendingConnections = 16;
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
constexpr PendingConnections::Limits kNoPendingConnection{.silent = 0, .spoken = kUnlimited};
/// Until others get their turn on the thread.
constexpr int kAdmittedAtATime = 32;
constexpr std::chrono::milliseconds kTick = 100ms;
constexpr std::chrono::seconds kPatience = 10s;  // with an unauthenticated client
/// Between two calls of a rank whose backlog was full.
constexpr std::chrono::milliseconds kRecall = 2ms;
constexpr std::chrono::milliseconds kDrainTimeout = 1s;

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

os::Fd make_socket() {
  os::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0)
    throw_error(Code::system, "join", fmt::format("socket: {}", std::strerror(errno)),
                kDescriptorHint);
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

Reach ShmFabric::reaches(const RankAddress& own, const RankAddress& peer) const {
  if (own.host_id != peer.host_id)
    return {false, fmt::format("host {} and host {} are different machines or namespaces",
                               own.host.data(), peer.host.data())};
  if (!own.fabrics.find<ShmAddress>(kind()) || !peer.fabrics.find<ShmAddress>(kind()))
    return {false, fmt::format("host {} does not say where its ranks listen", peer.host.data())};
  if (own.uid != peer.uid)
    return {false, fmt::format("user {} here, user {} there: memory is shared within one user only",
                               own.uid, peer.uid)};
  return {true, "same host: one boot, one network and pid namespace"};
}

void ShmFabric::listen(RankAddress& own) {
  ShmAddress address;
  randombytes_buf(address.socket.data(), address.socket.size());
  unopened_ = make_socket();
  const AbstractName name = abstract_name(address.socket);
  if (::bind(unopened_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      ::listen(unopened_.get(), 4096) != 0)
    throw_error(Code::system, "join",
                fmt::format("listening on a Unix socket: {}", std::strerror(errno)));
  (void)own.fabrics.add(kind(), address);
}

void ShmFabric::open(const std::vector<RankAddress>& job) {
  identity_ = Identity(local_.rank, local_.size, job[0].job_secret);
  partners_ = std::vector<Partner>(job.size());
  for (std::size_t i = 0; i < job.size(); ++i) {
    partners_[i].rank = static_cast<int>(i);
    partners_[i].address = job[i];
    if (job[i].host_id == job[static_cast<std::size_t>(local_.rank)].host_id)
      processes_.insert(job[i].pid);
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

/// A peer that gets the connection's end before the message that this rank leaves takes it for
/// dead.
void ShmFabric::drain() noexcept {
  const auto until = Clock::now() + kDrainTimeout;
  const auto has_sent_all = [](const Partner& partner) {
    bool all = true;
    for (const auto& link : partner.links) all = link->send_rest() && all;
    return all;
  };
  while (std::ranges::count_if(partners_, std::not_fn(has_sent_all)) > 0 && Clock::now() < until)
    sched_yield();
}

/// Unauthenticated clients are not to be the reason that there is no descriptor for it.
os::Fd ShmFabric::make_caller() {
  for (;;) try {
      return make_socket();
    } catch (const Error&) {
      if (!crowd_one_out(kNoPendingConnection)) throw;
    }
}

void ShmFabric::call(Partner& partner) {
  os::Fd socket = make_caller();
  const AbstractName name = abstract_name(partner.address.fabrics.find<ShmAddress>(kind())->socket);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EAGAIN) {  // its backlog is full: it will have accepted some soon
      uncalled_.insert(partner.rank);
      ticks_.start();
      return ticks_.change(kRecall);
    }
    if (errno == ECONNREFUSED) return events_.lost(partner.rank);  // no process listens there now
    return events_.short_of(Error(ErrorDetail{
        .code = Code::system,
        .operation = "join",
        .message = fmt::format("connecting to rank {}: {}", partner.rank, std::strerror(errno)),
        .peer = partner.rank,
        .host = partner.address.host.data()}));
  }
  partner.links.push_back(make_link(std::move(socket)));
  Link& link = *partner.links.back();
  link.rank = partner.rank;
  if (const std::string reason = validate_process(link, partner.rank); !reason.empty())
    return reject(link, reason);
  link.wireup.client = identity_.handshake(partner.rank, Purpose::memory);
  link.wireup.stage = Link::Wireup::Stage::begun;
  link.send(HandshakeMessage{.handshake = link.wireup.client});
}

void ShmFabric::call_again() {
  for (const int rank : std::exchange(uncalled_, {})) try {
      call(partners_[static_cast<std::size_t>(rank)]);
    } catch (const Error& error) {
      events_.short_of(error);
    }
  if (uncalled_.empty()) ticks_.change(kTick);
}

std::unique_ptr<Link> ShmFabric::make_link(os::Fd socket) {
  return std::make_unique<Link>(
      ++last_link_, progress_, std::move(socket),
      [this](Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors) {
        on_message(link, bytes, std::move(descriptors));
      },
      [this](Link& link) { on_end(link); });
}

void ShmFabric::accept_pending() {
  for (int i = 0; i < kAdmittedAtATime && !paused_; ++i) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket)
      take_in(std::move(socket));
    else if (errno != EINTR && errno != ECONNABORTED && !make_room(errno))
      return;
  }
}

/// Whether accepting may be tried again after this error.
bool ShmFabric::make_room(int error) {
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return false;
  if (error == EMFILE || error == ENFILE) os::note_descriptor_shortage();
  if (crowd_one_out(kNoPendingConnection)) return true;
  pause();  // the socket stays readable, so the progress thread would retry without end
  events_.short_of(
      Error(ErrorDetail{.code = Code::exhausted,
                        .operation = "join",
                        .message = fmt::format("accepting a rank: {}", std::strerror(error)),
                        .hint = kDescriptorHint}));
  return false;
}

void ShmFabric::take_in(os::Fd socket) {
  const Link::Process process = Link::Process::of_peer(socket.get());
  if (process.uid != ::getuid())
    return local_.rejected_connections.note(*local_.log, "the Unix socket",
                                            fmt::format("pid {}", process.pid),
                                            fmt::format("it is of user {}", process.uid));
  try {
    auto link = make_link(std::move(socket));
    PendingConnections::Source source{};
    std::memcpy(source.data(), &process.pid, sizeof process.pid);
    const PendingConnections::Id place = pending_.enter(source);
    if (processes_.contains(process.pid)) pending_.spoke(place);
    const Link::Id id = link->id();
    pending_connections_[id] = {.link = std::move(link), .place = place};
  } catch (const Error& error) {
    return events_.short_of(error);
  }
  while (crowd_one_out({.silent = kMaxPendingConnections, .spoken = kUnlimited})) {
  }
  ticks_.start();
}

void ShmFabric::pause() {
  paused_ = true;
  listener_.change(0);
  ticks_.start();
}

void ShmFabric::tick() {
  if (!uncalled_.empty()) call_again();
  for (const PendingConnections::Id place : pending_.late(Clock::now(), kPatience))
    for (const auto& [id, pending] : pending_connections_)
      if (pending.place == place) reject(*pending.link, "it did not say in time which rank it is");
  if (paused_) {
    paused_ = false;
    listener_.change(EPOLLIN);
  }
  if (pending_connections_.empty() && uncalled_.empty()) ticks_.stop();
}

/// Not to be called by a link, as it goes at once: its descriptor is needed.
bool ShmFabric::crowd_one_out(const PendingConnections::Limits& limits) {
  const auto place = pending_.surplus(limits);
  if (!place) return false;
  const auto pending =
      std::find_if(pending_connections_.begin(), pending_connections_.end(),
                   [&](const auto& entry) { return entry.second.place == *place; });
  local_.rejected_connections.note(*local_.log, "the Unix socket",
                                   fmt::format("pid {}", pending->second.link->peer().pid),
                                   "it is no rank's process, and too many others called");
  pending_.leave(*place);
  pending_connections_.erase(pending);
  return true;
}

void ShmFabric::reject(Link& link, const std::string& reason) {
  local_.rejected_connections.note(*local_.log, "the Unix socket",
                                   fmt::format("pid {}", link.peer().pid), reason);
  link.wireup.stage = Link::Wireup::Stage::refused;
  if (link.rank < 0) return drop_pending_connection(link.id());
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
    drop_pending_connection(link.id());
  else if (partners_[static_cast<std::size_t>(link.rank)].pidfd)
    events_.broken(link.rank);
  else
    events_.lost(link.rank);
}

void ShmFabric::drop_pending_connection(Link::Id id) {
  if (const auto found = pending_connections_.find(id); found != pending_connections_.end())
    pending_.leave(found->second.place);
  // Not at once: the link may be the caller.
  progress_.post([this, id] { pending_connections_.erase(id); });
}

void ShmFabric::watch_process(Partner& partner) {
  if (partner.pidfd) return;
  if (partner.address.pid == ::getpid()) return;  // a rank of this process ends by leaving
  try {
    partner.pidfd = os::pidfd_open(partner.address.pid);
    progress_.watch(partner.pidfd.get(), EPOLLIN, [this, &partner](std::uint32_t) {
      progress_.forget(partner.pidfd.get());
      // The messages that it sent before it died come first.
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
