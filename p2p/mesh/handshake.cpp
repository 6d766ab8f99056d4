// How two ranks of a host find and believe each other.
#include <fmt/format.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/os/asymmetric_barrier.hpp"
#include "base/os/pidfd.hpp"
#include "p2p/mesh/mesh.hpp"

namespace weft::p2p {
namespace {

constexpr const char* kDescriptorHint =
    "raise the limit of open files (ulimit -n): a rank needs three per rank of its host";

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

[[noreturn]] void refuse(Code code, const std::string& message, const std::string& hint) {
  throw Error(ErrorDetail{.code = code, .operation = "join", .message = message, .hint = hint});
}

os::Fd make_socket() {
  os::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0)
    refuse(Code::system, fmt::format("socket: {}", std::strerror(errno)), kDescriptorHint);
  return socket;
}

}  // namespace

RankAddress Mesh::address() {
  listener_ = make_socket();
  const AbstractName name = abstract_name(own_.socket);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      ::listen(listener_.get(), 4096) != 0)
    refuse(Code::system, fmt::format("listening on a Unix socket: {}", std::strerror(errno)), "");
  return own_;
}

void Mesh::connect(std::vector<RankAddress> addresses, Deadline deadline) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const RankAddress& address = addresses[rank];
    if (address.magic != RankAddress::kMagic || address.version != RankAddress::kVersion)
      refuse(Code::bootstrap,
             fmt::format("rank {} speaks version {} of the protocol, this rank {}", rank,
                         address.version, RankAddress::kVersion),
             "start every rank with the same weft");
    auto peer = std::make_unique<Peer>();
    peer->rank = static_cast<int>(rank);
    peer->address = address;
    peer->address.host.back() = '\0';
    peer->verdicts = {shm_reaches(own_, address),
                      {"verbs", false, "not in this version"},
                      {"tcp", false, "not in this version"}};
    if (!peer->verdicts.front().usable)
      refuse(Code::unreachable,
             fmt::format("rank {} (host {}) can't be reached: shm: {}; verbs: not in this version; "
                         "tcp: not in this version",
                         rank, address.host.data(), peer->verdicts.front().reason),
             "start every rank on one host, in one container");
    peers.push_back(std::move(peer));
  }
  int sharers = 0;
  for (const RankAddress& address : addresses)
    if (os::overlap(address.cpus, own_.cpus)) ++sharers;
  local_.settle_waiting(sharers, static_cast<int>(addresses.size()));
  local_.progress.run([&] {
    own_.job_secret = addresses[0].job_secret;
    peers_ = std::move(peers);
    // The higher rank connects, so that a pair meets once; a rank also connects to itself.
    local_.progress.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_pending(); });
    for (int rank = 0; rank <= local_.rank; ++rank) connect_to(peer(rank));
    for (const auto& p : peers_) watch_process(*p);
  });
  const auto connected = [this] {
    for (const auto& p : peers_)
      if (p->state.load(std::memory_order_acquire) == PeerState::joining) return false;
    return true;
  };
  const auto failed = [this] { return first_failed_.load() >= 0 || join_failed_.load(); };
  const WaitEnd end = local_.waiter.wait(connected, failed, deadline);
  if (join_failed_.load()) throw Error(join_error_);
  for (const auto& p : peers_) {
    const Status status = fate(p->rank);
    if (status.code() == Code::peer_failed) {
      ErrorDetail detail = status.detail();
      detail.operation = "join";
      throw Error(detail);
    }
    if (end == WaitEnd::timeout && p->state.load() == PeerState::joining)
      throw Error(
          ErrorDetail{.code = Code::timeout,
                      .operation = "join",
                      .message = fmt::format("rank {} (host {}, pid {}) did not connect", p->rank,
                                             p->host(), p->address.pid),
                      .hint = "is it stopped? WEFT_INIT_TIMEOUT sets how long joining waits",
                      .rank = local_.rank,
                      .peer = p->rank,
                      .host = p->host()});
  }
  for (const auto& p : peers_)
    local_.log->info(Subsystem::path, "rank {} (host {}, pid {}): shm: {}", p->rank, p->host(),
                     p->address.pid, p->verdicts.front().reason);
}

void Mesh::connect_to(Peer& peer) {
  os::Fd socket = make_socket();
  const AbstractName name = abstract_name(peer.address.socket);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno == EAGAIN) {  // its backlog is full: it will have accepted some soon
      local_.progress.post([this, &peer] {
        try {
          connect_to(peer);
        } catch (const Error& error) {
          fail_join(error);
        }
      });
      return;
    }
    if (errno == ECONNREFUSED) return end(peer, PeerState::failed, -1);  // nobody listens there now
    return fail_join(Error(ErrorDetail{
        .code = Code::system,
        .operation = "join",
        .message = fmt::format("connecting to rank {}: {}", peer.rank, std::strerror(errno)),
        .peer = peer.rank,
        .host = peer.host()}));
  }
  peer.links.push_back(std::make_unique<Link>(
      local_.progress, std::move(socket),
      [this](Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors) {
        on_message(link, bytes, std::move(descriptors));
      },
      [](Link&) {}));
  peer.links.back()->rank = peer.rank;
  send_hello(*peer.links.back(), peer, MessageType::hello);
}

void Mesh::accept_pending() {
  for (;;) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        local_.progress.forget(listener_.get());  // or it would be asked for ever
        fail_join(
            Error(ErrorDetail{.code = Code::exhausted,
                              .operation = "join",
                              .message = fmt::format("accepting a rank: {}", std::strerror(errno)),
                              .hint = kDescriptorHint}));
      }
      return;
    }
    auto link = std::make_unique<Link>(
        local_.progress, std::move(socket),
        [this](Link& from, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors) {
          on_message(from, bytes, std::move(descriptors));
        },
        [this](Link& from) { drop_stranger(from); });
    if (link->peer_uid() != own_.uid) {
      local_.log->warn(Subsystem::path, "a process of user {} was turned away", link->peer_uid());
      continue;
    }
    strangers_.push_back(std::move(link));
  }
}

void Mesh::drop_stranger(Link& link) {
  // Not at once: the link may be the caller.
  local_.progress.post([this, &link] {
    std::erase_if(strangers_, [&](const auto& held) { return held.get() == &link; });
  });
}

void Mesh::send_hello(Link& link, const Peer& peer, MessageType type) {
  const Block& bell = local_.bell_block();
  HelloMessage hello;
  hello.type = type;
  hello.from = local_.rank;
  hello.to = peer.rank;
  hello.barrier_before_sleep = local_.waiter.policy().barrier_before_sleep ? 1 : 0;
  hello.control_bytes = local_.control->chunk_bytes(bell.chunk);
  hello.doorbell_offset = bell.offset;
  hello.mac = mac(local_.rank, peer.rank);
  const std::array<int, 2> descriptors = {local_.control->chunk_fd(bell.chunk).get(),
                                          local_.bell_event().get()};
  link.send(hello, descriptors);
}

std::array<std::byte, 32> Mesh::mac(int from, int to) const {
  static_assert(crypto_auth_BYTES == 32 && crypto_auth_KEYBYTES == 32);
  const std::array<std::int32_t, 3> said = {static_cast<std::int32_t>(RankAddress::kVersion), from,
                                            to};
  std::array<std::byte, 32> tag{};
  crypto_auth(reinterpret_cast<unsigned char*>(tag.data()),
              reinterpret_cast<const unsigned char*>(said.data()), sizeof said,
              reinterpret_cast<const unsigned char*>(own_.job_secret.data()));
  return tag;
}

std::string Mesh::distrust(const HelloMessage& hello, const Link& link,
                           std::size_t descriptors) const {
  if (hello.version != RankAddress::kVersion)
    return fmt::format("it speaks version {}, this rank {}", hello.version, RankAddress::kVersion);
  if (hello.to != local_.rank || hello.from < 0 || hello.from >= local_.size)
    return fmt::format("it says it is rank {} calling rank {}", hello.from, hello.to);
  const RankAddress& known = peer(hello.from).address;
  if (link.peer_pid() != known.pid || link.peer_uid() != known.uid)
    return fmt::format("it is pid {}, and rank {} is pid {}", link.peer_pid(), hello.from,
                       known.pid);
  const auto expected = mac(hello.from, hello.to);
  if (sodium_memcmp(expected.data(), hello.mac.data(), expected.size()) != 0)
    return "it does not know the job's secret";
  if (descriptors != 2 || hello.doorbell_offset % alignof(Doorbell) != 0 ||
      hello.control_bytes < sizeof(Doorbell) ||
      hello.doorbell_offset > hello.control_bytes - sizeof(Doorbell))
    return "its hello is malformed";
  return {};
}

void Mesh::on_message(Link& link, std::span<const std::byte> bytes,
                      std::vector<os::Fd> descriptors) {
  MessageType type{};
  if (bytes.size() < sizeof type) return;
  std::memcpy(&type, bytes.data(), sizeof type);
  const bool stranger = link.rank < 0;
  if (stranger || type == MessageType::welcome) {
    const auto hello = parse<HelloMessage>(bytes);
    const std::string reason =
        hello ? distrust(*hello, link, descriptors.size()) : "it does not say hello";
    if (!reason.empty()) {
      local_.log->warn(Subsystem::path, "a process (pid {}) was turned away: {}", link.peer_pid(),
                       reason);
      if (stranger) drop_stranger(link);
      return;
    }
    Peer& peer = this->peer(hello->from);
    if (stranger) {
      const auto held = std::find_if(strangers_.begin(), strangers_.end(),
                                     [&](const auto& l) { return l.get() == &link; });
      if (held == strangers_.end()) return;
      peer.links.push_back(std::move(*held));
      strangers_.erase(held);
      link.rank = peer.rank;
      send_hello(link, peer, MessageType::welcome);
    }
    greet(peer, *hello, std::move(descriptors));
    return;
  }
  Peer& peer = this->peer(link.rank);
  if (type == MessageType::chunk) {
    const auto chunk = parse<ChunkMessage>(bytes);
    if (!chunk || descriptors.size() != 1 || !peer.channel) return;
    try {
      const Access access =
          sort_of_chunk(chunk->chunk) == ArenaSort::published ? Access::read : Access::write;
      peer.channel->add_chunk(chunk->chunk,
                              local_.mapper->map(descriptors[0], chunk->bytes, access));
      peer.registrations.fetch_add(1, std::memory_order_relaxed);
    } catch (const Error& error) {
      local_.log->error(Subsystem::path, "mapping memory of rank {}: {}", peer.rank, error.what());
    }
  } else if (type == MessageType::leaving) {
    const auto leaving = parse<LeavingMessage>(bytes);
    if (!leaving) return;
    const bool known = leaving->because_of >= 0 && leaving->because_of < local_.size;
    end(peer, PeerState::left, known ? leaving->because_of : -1);
  } else {
    on_message_(peer, link, bytes);
  }
}

void Mesh::greet(Peer& peer, const HelloMessage& hello, std::vector<os::Fd> descriptors) {
  if (peer.state.load() != PeerState::joining) return;
  try {
    auto control = local_.mapper->map(descriptors[0], hello.control_bytes, Access::write);
    const std::uint32_t first_control_chunk = static_cast<std::uint32_t>(ArenaSort::control) << 24;
    const bool ring_needs_fence = hello.barrier_before_sleep == 0 || !os::joins_global_barriers();
    peer.channel = std::make_unique<ShmChannel>(local_.stream_bytes, first_control_chunk,
                                                std::move(control), hello.doorbell_offset,
                                                std::move(descriptors[1]), ring_needs_fence);
    peer.chunks_sent.insert(local_.bell_block().chunk);
    peer.registrations.fetch_add(1, std::memory_order_relaxed);
  } catch (const Error& error) {
    return fail_join(error);
  }
  peer.state.store(PeerState::connected, std::memory_order_release);
  local_.ring();
}

void Mesh::watch_process(Peer& peer) {
  if (peer.address.pid == own_.pid) return;  // a rank of this process ends by leaving
  try {
    peer.pidfd = os::pidfd_open(peer.address.pid);
    local_.progress.watch(peer.pidfd.get(), EPOLLIN, [this, &peer](std::uint32_t) {
      local_.progress.forget(peer.pidfd.get());
      // What it said before it died comes first.
      for (std::size_t i = 0; i < peer.links.size(); ++i) peer.links[i]->drain();
      end(peer, PeerState::failed, -1);
    });
  } catch (const Error& error) {
    if (::kill(peer.address.pid, 0) != 0 && errno == ESRCH)
      end(peer, PeerState::failed, -1);
    else
      fail_join(error);
  }
}

}  // namespace weft::p2p
