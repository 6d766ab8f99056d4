#include "p2p/transport/verbs/cm/cm_connector.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::chrono::milliseconds kTick{50};
/// Between the end of a connection and that of the peer by the connector, which knows why.
constexpr std::chrono::seconds kGrace{2};
constexpr unsigned kIndexBits = 8;

// A number instead of a pointer: what it names is looked up.
void* context_of(int rank, std::size_t index) noexcept {
  return reinterpret_cast<void*>((static_cast<std::uintptr_t>(rank) << kIndexBits) | index);
}

ConnectionEvents open_channel(ConnectionManager& manager, const Device& device) {
  ConnectionEvents channel(manager, manager.create_event_channel());
  if (!channel)
    throw Error(ErrorDetail{
        .code = Code::unreachable,
        .operation = "join",
        .message = fmt::format("WEFT_CONNECT=cm: {}: rdma_create_event_channel: {}", device.name(),
                               os::words(errno)),
        .hint = "load the kernel's module rdma_ucm, and bring /dev/infiniband/rdma_cm into the "
                "container"});
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    os::throw_system_error("fcntl", "the descriptor of the connection manager's events");
  return channel;
}

int milliseconds(std::chrono::nanoseconds span) noexcept {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
}

Status failure(int rank, std::size_t index, const std::string& what) {
  return Status(ErrorDetail{
      .code = Code::unreachable,
      .operation = "connect",
      .message = fmt::format("queue pair {} to rank {}: {}", index, rank, what),
      .hint = "the log of the other rank may say why; `rping` tries the connection manager without "
              "weft, WEFT_CONNECT=tcp does without it",
      .peer = rank});
}

}  // namespace

CmConnector::CmConnector(std::shared_ptr<ConnectionManager> manager, Device& device,
                         ProgressThread& progress, Log& log, Options options, Events events)
    : manager_(std::move(manager)),
      device_(device),
      progress_(progress),
      log_(log),
      options_(options),
      events_(std::move(events)),
      channel_(open_channel(*manager_, device)),
      listener_(listen_at_own_ip(*manager_, channel_.get(), device)) {
  log_.info(Subsystem::path, "verbs: the connection manager takes calls at {}",
            text(listener_.ip, listener_.port));
}

CmConnector::~CmConnector() {
  if (timer_) progress_.forget(channel_->fd);
}

void CmConnector::open() {
  timer_.emplace(progress_, kTick, [this](std::uint64_t) { tick(); });
  progress_.watch(channel_->fd, EPOLLIN, [this](std::uint32_t) { read_events(); });
}

void CmConnector::describe(VerbsAddress& own) const noexcept {
  own.cm_ip = listener_.ip;
  own.cm_port = listener_.port;
}

Token CmConnector::expect(int rank, std::span<ibv_qp* const> pairs) {
  Party& party = parties_[rank];
  ::randombytes_buf(party.token.data(), party.token.size());
  party.connections.clear();
  for (ibv_qp* pair : pairs) party.connections.emplace_back(*manager_, device_, pair);
  give_up_after(party, options_.patience);
  return party.token;
}

void CmConnector::connect(int rank, const VerbsAddress& peer, const Token& token) {
  const auto found = parties_.find(rank);
  if (found == parties_.end()) return;
  std::vector<CmConnection>& connections = found->second.connections;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    CmConnection& one = connections[i];
    one.know(peer, {.rank = options_.rank, .index = static_cast<std::uint32_t>(i), .token = token});
    if (options_.rank > rank)
      one.call(channel_.get(), context_of(rank, i), listener_.ip, milliseconds(options_.patience));
    else if (one.is_called())
      one.answer();
  }
}

void CmConnector::drop(int rank) noexcept { parties_.erase(rank); }

void CmConnector::read_events() {
  for (;;) {
    rdma_cm_event* next = nullptr;
    if (manager_->get_event(channel_.get(), &next) != 0) return;
    // An id can't go before its events are acknowledged, and handling one may end it.
    rdma_cm_event event = *next;
    std::array<std::byte, sizeof(Credentials)> said{};
    const bool has_said = event.event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                          event.event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                          event.event == RDMA_CM_EVENT_ESTABLISHED;
    rdma_conn_param& parameters = event.param.conn;
    if (has_said && parameters.private_data != nullptr) {
      parameters.private_data_len =
          std::min<std::uint8_t>(parameters.private_data_len, sizeof said);
      std::memcpy(said.data(), parameters.private_data, parameters.private_data_len);
      parameters.private_data = said.data();
    } else {
      parameters = {};
    }
    manager_->ack_event(next);
    handle(event);
  }
}

void CmConnector::handle(const rdma_cm_event& event) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_call(event);
  if (event.id == listener_.id.get()) {
    log_.warn(Subsystem::path, "verbs: the connection manager takes calls no more: {}",
              manager_->event_text(event.event));
    return;
  }
  const auto context = reinterpret_cast<std::uintptr_t>(event.id->context);
  const auto peer = parties_.find(static_cast<int>(context >> kIndexBits));
  const std::size_t index = context & ((1U << kIndexBits) - 1);
  if (peer != parties_.end() && index < peer->second.connections.size())
    on_event(*peer, index, event);
}

CmConnection* CmConnector::who_calls(const rdma_cm_event& event, int& rank, std::size_t& index) {
  const auto client = Credentials::read(event.param.conn);
  if (!client) return nullptr;
  rank = client->rank;
  index = client->index;
  const auto peer = parties_.find(rank);
  if (peer == parties_.end() || rank <= options_.rank) return nullptr;
  Party& party = peer->second;
  if (::sodium_memcmp(client->token.data(), party.token.data(), party.token.size()) != 0 ||
      index >= party.connections.size() || party.connections[index].is_called())
    return nullptr;
  return &party.connections[index];
}

void CmConnector::on_call(const rdma_cm_event& event) {
  ConnectionId id(*manager_, event.id);
  int rank = -1;
  std::size_t index = 0;
  CmConnection* server = who_calls(event, rank, index);
  if (server == nullptr) {
    manager_->reject(id.get());
    if (rejected_connections_++ == 0)
      log_.warn(Subsystem::path,
                "verbs: rejected a call by the connection manager that bore no token of this "
                "job; others will be rejected in silence");
    return;
  }
  try {
    server->on_request(std::move(id), context_of(rank, index));
  } catch (const Error& error) {
    events_.failed(rank, Status(error.detail()));
  }
}

void CmConnector::on_event(Parties::value_type& peer, std::size_t index,
                           const rdma_cm_event& event) {
  const int rank = peer.first;
  Party& party = peer.second;
  CmConnection& one = party.connections[index];
  // The connector will have the reason, unless the connection alone was lost.
  if (one.is_up() && event.event == RDMA_CM_EVENT_DISCONNECTED) return give_up_after(party, kGrace);
  try {
    const Credentials answer{
        .rank = rank, .index = static_cast<std::uint32_t>(index), .token = party.token};
    switch (one.handle(event, answer)) {
      case CmConnection::Progress::under_way:
        return;
      case CmConnection::Progress::up:
        return look_if_up(rank, party);
      case CmConnection::Progress::failed:
        return events_.failed(rank, failure(rank, index, one.why(event)));
    }
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.peer = rank;
    events_.failed(rank, Status(std::move(detail)));
  }
}

void CmConnector::look_if_up(int rank, Party& party) {
  const auto& all = party.connections;
  if (party.is_up || !std::all_of(all.begin(), all.end(), [](const auto& i) { return i.is_up(); }))
    return;
  party.is_up = true;
  party.give_up.reset();
  events_.up(rank);
}

void CmConnector::give_up_after(Party& party, std::chrono::nanoseconds span) {
  party.give_up = Clock::now() + span;
  timer_->start();
}

void CmConnector::tick() {
  const auto now = Clock::now();
  bool more = false;
  std::vector<std::pair<int, Status>> late;
  for (auto& [rank, party] : parties_) {
    if (!party.give_up) continue;
    if (now < *party.give_up) {
      more = true;
      continue;
    }
    party.give_up.reset();
    const auto& all = party.connections;
    const auto missing =
        std::find_if(all.begin(), all.end(), [](const auto& i) { return !i.is_up(); });
    const auto index = static_cast<std::size_t>(missing - all.begin());
    late.emplace_back(
        rank, missing == all.end()
                  ? failure(rank, 0, "the connection has ended, but not its rank")
                  : failure(rank, index,
                            fmt::format("not connected within {} ms: {}",
                                        milliseconds(options_.patience), missing->doing())));
  }
  if (!more) timer_->stop();
  for (const auto& [rank, why] : late) events_.failed(rank, why);
}

}  // namespace weft::p2p::verbs
