#include "p2p/rendezvous/rendezvous_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::rendezvous::Ticket;
using SessionLock = p2p::rendezvous::PeerSession::SessionLock;

namespace {

constexpr std::uint32_t kLeastMessage = 256;

void check_spec(const RendezvousSpec& spec) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw Error(ErrorDetail{
        .code = Code::bad_argument, .operation = "open", .message = message, .hint = hint});
  };
  if (spec.name.empty() || spec.name.size() > p2p::kMaxRendezvousName ||
      spec.name.find('\0') != std::string::npos)
    refuse(fmt::format("a rendezvous' name of {} bytes", spec.name.size()),
           fmt::format("names are plain text of 1 to {} bytes", p2p::kMaxRendezvousName));
  if (spec.message_bytes < kLeastMessage || spec.message_bytes > p2p::kMaxRendezvousMessage)
    refuse(fmt::format("message_bytes of rendezvous \"{}\" is {}", spec.name, spec.message_bytes),
           fmt::format("it goes from {} to {}", kLeastMessage, p2p::kMaxRendezvousMessage));
}

/// An error of the slots that a rendezvous consists of, in words of the rendezvous.
Error error_of(const Error& error, const RendezvousSpec& spec, const p2p::Mesh& mesh) {
  ErrorDetail detail = error.detail();
  detail.operation = "open";
  detail.slot = spec.name;
  const std::string rank = fmt::format("rank {} (host {})", detail.peer, detail.host);
  switch (detail.code) {
    case Code::duplicate_name:
      detail.message = fmt::format("rendezvous \"{}\" is open on this rank already", spec.name);
      detail.hint = "destroy the former one first, or take another name";
      break;
    case Code::mismatch:  // all else is the same on every rank
      detail.message = fmt::format("{} opens rendezvous \"{}\" with other message_bytes than {}",
                                   rank, spec.name, spec.message_bytes);
      detail.hint = "give every rank the same RendezvousSpec::message_bytes";
      break;
    case Code::timeout:
      detail.message = fmt::format("{} has not opened rendezvous \"{}\"{}", rank, spec.name,
                                   mesh.suspicion(detail.peer));
      detail.hint = "every rank opens it, with the same name";
      break;
    default:
      detail.message = fmt::format("rendezvous \"{}\": {}", spec.name, detail.message);
  }
  return Error(std::move(detail));
}

/// The spec with its GPU's number.
RendezvousSpec settled(p2p::LocalRank& local, RendezvousSpec spec) {
  check_spec(spec);
  if (spec.memory.is_host()) return spec;
  if (local.gpus == nullptr)
    throw_error(Code::bad_argument, "open", "it is to receive on a GPU, and this rank has none",
                "leave out RendezvousSpec::memory");
  spec.memory = local.gpus->resolve("open", spec.memory);
  return spec;
}

}  // namespace

RendezvousState::RendezvousState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots,
                                 p2p::RendezvousTable& table, RendezvousSpec spec,
                                 std::string_view suffix, std::span<const int> members)
    : local_(local),
      mesh_(mesh),
      slots_(slots),
      table_(table),
      spec_(settled(local, std::move(spec))),
      shared_name_(spec_.name + std::string(suffix)) {
  by_rank_.resize(static_cast<std::size_t>(local_.size));
  for (const int rank : members) {
    sessions_.push_back(std::make_unique<PeerSession>(local_, mesh_, slots_, mesh_.peer(rank),
                                                      spec_, shared_name_, totals_));
    by_rank_[static_cast<std::size_t>(rank)] = sessions_.back().get();
  }
  // This rank's own end is the last to be waited for, so a timeout names a rank that is late.
  std::stable_partition(sessions_.begin(), sessions_.end(), [this](const auto& session) {
    return session->peer().rank != local_.rank;
  });
}

void RendezvousState::meet(Deadline until) try {
  for (const auto& session : sessions_) session->expose();
  Status shared;
  local_.progress.run([&] {
    for (const auto& session : sessions_)
      if (shared.ok()) shared = session->share();
  });
  shared.or_throw();
  for (const auto& session : sessions_) session->attach(until);
} catch (const Error& error) {
  throw error_of(error, spec_, mesh_);
}

void RendezvousState::open(Deadline deadline) {
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  meet(until);
  for (const auto& session : sessions_) session->send_hello();
  // Once open() returns, all members have met this rank, so it may even leave.
  const auto missing = [this] {
    return std::find_if(sessions_.begin(), sessions_.end(),
                        [](const auto& session) { return !session->met(); });
  };
  wait([&] { return missing() == sessions_.end(); }, [&] { return (*missing())->broken(); }, until,
       [&](stats::WaitDetails& details) {
         const auto late = missing();
         return about(details, "open", {}, late == sessions_.end() ? -1 : (*late)->peer().rank);
       });
  if (const auto late = missing(); late != sessions_.end()) {
    const SessionLock lock(**late);
    Status status = (*late)->usable("open", {});
    if (status.ok())
      status = Status(
          ErrorDetail{.code = Code::timeout,
                      .operation = "open",
                      .message = fmt::format("rank {} (host {}) has not opened rendezvous \"{}\"{}",
                                             (*late)->peer().rank, (*late)->peer().host(),
                                             spec_.name, mesh_.suspicion((*late)->peer().rank)),
                      .hint = "every rank opens it, with the same name",
                      .rank = local_.rank,
                      .peer = (*late)->peer().rank,
                      .host = (*late)->peer().host(),
                      .slot = spec_.name});
    status.or_throw();
  }
}

Status RendezvousState::refuse(const char* operation, int rank, const KeyStep& at) const noexcept {
  const bool is_member =
      rank >= 0 && rank < local_.size && by_rank_[static_cast<std::size_t>(rank)] != nullptr;
  if (is_member && !at.key.empty() && at.key.size() <= p2p::rendezvous::kMaxKey) return {};
  return weft::refuse(Code::bad_argument, [&] { return why_refused(operation, rank, at); });
}

ErrorDetail RendezvousState::why_refused(const char* operation, int rank, const KeyStep& at) const {
  ErrorDetail detail{.operation = operation, .rank = local_.rank};
  if (rank < 0 || rank >= local_.size) {
    detail.message = fmt::format("there is no rank {} in a job of {}", rank, local_.size);
    detail.hint = fmt::format("ranks go from 0 to {}", local_.size - 1);
  } else if (by_rank_[static_cast<std::size_t>(rank)] == nullptr) {
    detail.message =
        fmt::format("rank {} is no member of the group that opened \"{}\"", rank, spec_.name);
    detail.hint = "exchange tensors between members alone";
    detail.peer = rank;
  } else {
    detail.message = fmt::format("a key of {} bytes", at.key.size());
    detail.hint = fmt::format("keys have 1 to {} bytes", p2p::rendezvous::kMaxKey);
    detail.peer = rank;
  }
  return detail;
}

template <typename Ready, typename Broken, typename Shown>
void RendezvousState::wait(const Ready& ready, const Broken& broken, Deadline deadline,
                           const Shown& shown) noexcept {
  waiting_.fetch_add(1);
  const auto look = [&] {
    if (ready()) return true;
    poll();
    return ready();
  };
  stats::WaitDetailsRoom room;
  (void)local_.waiter.wait(look, broken, deadline, [&] { return shown(room.make()); });
  waiting_.fetch_sub(1);
}

stats::WaitAbout RendezvousState::about(stats::WaitDetails& details, const char* operation,
                                        const KeyStep& at, int peer) const noexcept {
  const std::span<char> room = std::span(details.chars).first(details.chars.size() - 1);
  const auto end =
      at.key.empty()
          ? fmt::format_to_n(room.data(), room.size(), "{} of \"{}\"", operation, spec_.name)
          : fmt::format_to_n(room.data(), room.size(), "{} of \"{}\", step {}, in \"{}\"",
                             operation, at.key, at.step, spec_.name);
  *end.out = '\0';
  return {.operation = stats::Operation::rendezvous, .peer = peer, .details = &details};
}

void RendezvousState::hand_over() noexcept {
  if (totals_.attention.load(std::memory_order_relaxed) > 0) local_.progress.turn_soon();
}

bool RendezvousState::wants_service() const noexcept {
  return totals_.attention.load() > 0 && waiting_.load() == 0;
}

void RendezvousState::poll() noexcept {
  for (const auto& session : sessions_)
    if (session->wants_turn()) session->try_turn();
}

void RendezvousState::receive(int from, std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                              Deadline deadline) {
  PeerSession& session = with(from);
  std::size_t next = 0;
  const auto ask = [&] {
    const SessionLock lock(session);
    session.run([&] { session.receiver().ask(wanted, tickets, next); });
    session.work();
  };
  ask();
  const Deadline until =
      spec_.memory.is_gpu() ? deadline.resolve(local_.waiter.default_timeout()) : deadline;
  p2p::SilentWork copies(local_.waiter);
  const auto all_done = [&] {
    if (next < wanted.size()) ask();
    // Copies go on meanwhile. Where the rest can't be asked for before, their ends are waited for.
    if (spec_.memory.is_gpu()) copies.set(!bring_to_gpu(session, tickets) && next < wanted.size());
    return next == wanted.size() && std::all_of(tickets.begin(), tickets.end(),
                                                [](const Ticket& ticket) { return ticket.done(); });
  };
  wait(
      all_done, [&] { return session.broken(); }, until,
      [&](stats::WaitDetails& details) {
        const auto late = std::find_if(tickets.begin(), tickets.end(),
                                       [](const Ticket& ticket) { return !ticket.done(); });
        const KeyStep none;
        return about(
            details, "recv",
            late == tickets.end() ? none : wanted[static_cast<std::size_t>(late - tickets.begin())],
            from);
      });
  if (spec_.memory.is_gpu()) await_gpu(session, wanted, tickets, until);
}

Result<Received> RendezvousState::recv(int from, const KeyStep& at, Deadline deadline) noexcept {
  if (Status status = refuse("recv", from, at); !status.ok()) return status;
  Ticket ticket;
  receive(from, {&at, 1}, {&ticket, 1}, deadline);
  auto received = finish(from, at, ticket);
  hand_over();
  return received;
}

bool RendezvousState::ready(int from, const KeyStep& at) noexcept {
  // recv() says what is wrong.
  if (!refuse("recv", from, at).ok()) return true;
  local_.waiter.poll_once();
  PeerSession& session = with(from);
  bool is_done = false;
  {
    const SessionLock lock(session);
    session.work();
    session.run([&] {
      Ticket ticket;
      std::size_t next = 0;
      session.receiver().ask({&at, 1}, {&ticket, 1}, next);
      is_done = ticket.done() &&
                (!ticket.may_need_gpu() || session.receiver().bring_to_gpu(*ticket.item));
      session.receiver().leave(ticket);
    });
    session.work();
  }
  hand_over();
  return is_done || session.broken();
}

Result<Received> RendezvousState::finish(int from, const KeyStep& at, Ticket& ticket) noexcept {
  PeerSession& session = with(from);
  const SessionLock lock(session);
  session.work();
  Result<Received> received{Received{}};
  bool is_finished = false;
  session.run([&] {
    received = session.receiver().finish(at, ticket);
    is_finished = true;
  });
  return is_finished ? std::move(received) : Result<Received>(session.usable("recv", at));
}

std::vector<Result<Received>> RendezvousState::recv(int from, std::span<const KeyStep> wanted,
                                                    Deadline deadline) {
  std::vector<Result<Received>> received;
  for (const KeyStep& at : wanted)
    if (Status status = refuse("recv", from, at); !status.ok()) {
      received.assign(wanted.size(), status);
      return received;
    }
  std::vector<Ticket> tickets(wanted.size());
  received.reserve(wanted.size());
  receive(from, wanted, tickets, deadline);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    received.push_back(finish(from, wanted[i], tickets[i]));
  hand_over();
  return received;
}

Status RendezvousState::cancel(int from, const KeyStep& at) noexcept {
  if (Status status = refuse("cancel", from, at); !status.ok()) return status;
  Status status;
  {
    PeerSession& session = with(from);
    const SessionLock lock(session);
    session.work();
    session.run([&] { status = session.receiver().cancel(at); });
    if (status.ok()) status = session.usable("cancel", at);
  }
  hand_over();
  return status;
}

bool RendezvousState::begin_close() noexcept {
  for (const auto& session : sessions_) {
    const SessionLock lock(*session);
    session->begin_close();
  }
  hand_over();
  return is_free();
}

bool RendezvousState::is_free() noexcept {
  return std::none_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    const SessionLock lock(*session);
    return session->has_lent();
  });
}

void RendezvousState::on_control(int rank, std::span<const std::byte> bytes) {
  if (by_rank_[static_cast<std::size_t>(rank)] != nullptr) with(rank).on_control(bytes);
}

void RendezvousState::stop() noexcept {
  for (const auto& session : sessions_) {
    const SessionLock lock(*session);
    session->stop();
  }
  local_.ring();
}

void RendezvousState::report(std::vector<EdgeReport>& edges) const {
  for (const auto& session : sessions_) session->report(edges);
}

}  // namespace weft::detail
