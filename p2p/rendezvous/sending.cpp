// Sends of a rendezvous: offers, and what they end with.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/rendezvous/rendezvous_state.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::rendezvous::Content;
using p2p::rendezvous::OfferTable;
using p2p::rendezvous::SenderEnd;
using SessionLock = p2p::rendezvous::PeerSession::SessionLock;

Status RendezvousState::offer(int to, const KeyStep& at, Content& content, Deadline deadline) {
  PeerSession& session = with(to);
  SenderEnd::Offered offered;
  const auto try_offer = [&] {
    const SessionLock lock(session);
    session.work();
    session.run([&] { offered = session.sender().offer(at, content); });
    if (Status status = session.usable("send", at); !status.ok()) offered.status = status;
    session.work();
    return offered.outcome != OfferTable::Outcome::full || !offered.status.ok();
  };
  if (!try_offer()) {
    wait([&] { return try_offer(); }, [&] { return session.broken(); }, deadline,
         [&](stats::WaitDetails& details) { return about(details, "send", at, to); });
    if (offered.outcome == OfferTable::Outcome::full && offered.status.ok())
      offered.status = not_fetched(
          session, "send", formatted("no room to park key \"{}\", step {}", at.key, at.step));
  }
  hand_over();
  return offered.status;
}

Status RendezvousState::not_fetched(PeerSession& session, const char* operation,
                                    std::string_view what) {
  const SessionLock lock(session);
  const auto& offers = session.sender().offers();
  const KeyStep oldest = offers.offers() == 0 ? KeyStep{} : offers.oldest();
  const std::size_t moving = session.sender().unfetched() - offers.offers();
  if (Status status = session.usable(operation, oldest); !status.ok()) return status;
  return session.failure(
      Code::timeout, operation, oldest,
      formatted(
          "rank {} (host {}) has not fetched it{}; {} tensors of {} bytes are parked for it{}{}{}",
          session.peer().rank, session.peer().host(), mesh_.suspicion(session.peer().rank),
          offers.offers(), offers.parked_bytes(),
          moving == 0 ? "" : formatted(", {} more on the way", moving), what.empty() ? "" : "; ",
          what),
      "is the receiver at the same step? more room: RendezvousSpec::max_parked");
}

/// Whether a put may read the tensor where it lies.
bool RendezvousState::is_source_for(const p2p::Peer& peer, const Tensor& tensor) const noexcept {
  if (tensor.arena() == local_.data.get()) return true;
  const p2p::Capabilities& path = peer.channel->capabilities();
  if (tensor.arena() == local_.adopted.get() && (path.copies || path.peer_reaches_adopted.load()))
    return true;
  return local_.reachable(tensor.data(), tensor.extent());
}

Status RendezvousState::send(int to, const KeyStep& at, const Tensor& tensor,
                             Deadline deadline) noexcept {
  if (Status status = refuse("send", to, at); !status.ok()) return status;
  if (lacks_memory(tensor))
    return with(to).failure(Code::bad_argument, "send", at,
                            text_or_empty([&] { return no_host_memory("the tensor", tensor); }),
                            give_host_memory(tensor));
  if (tensor.memory().is_gpu() && tensor.bytes() != 0)
    return send_from_gpu(to, at, tensor, deadline.resolve(local_.waiter.default_timeout()));
  Content content;
  content.metadata = {.dtype = tensor.dtype(), .shape = tensor.shape()};
  if (content.metadata.bytes() != 0) {
    content.tensor = tensor;
    if (!is_source_for(with(to).peer(), tensor)) {
      try {
        if (local_.gpus != nullptr) local_.gpus->check_host("send", tensor);
        const SessionLock lock(with(to));
        content.tensor = with(to).sender().clone(tensor);
        content.owned = true;
      } catch (...) {
        return caught_status();
      }
    }
  }
  return offer(to, at, content, deadline);
}

Status RendezvousState::send_dead(int to, const KeyStep& at, Deadline deadline) noexcept {
  if (Status status = refuse("send", to, at); !status.ok()) return status;
  Content content;
  content.metadata.dead = true;
  return offer(to, at, content, deadline);
}

Status RendezvousState::send_error(int to, const KeyStep& at, Code code, std::string_view text,
                                   Deadline deadline) noexcept {
  if (Status status = refuse("send_error", to, at); !status.ok()) return status;
  if (code == Code::ok)
    return with(to).failure(Code::bad_argument, "send_error", at, "ok is no error",
                            "give the code that the receiver is to get");
  if (code > Code::partitioned)
    return with(to).failure(Code::bad_argument, "send_error", at,
                            formatted("{} is no code", static_cast<int>(code)),
                            "give the code that the receiver is to get");
  Content content;
  content.metadata.dead = true;
  content.error = code;
  try {
    content.error_text = text;
  } catch (...) {
    return caught_status();
  }
  return offer(to, at, content, deadline);
}

Status RendezvousState::send_encoded(int to, const KeyStep& at, const Codec& value,
                                     Deadline deadline) noexcept {
  if (Status status = refuse("send_encoded", to, at); !status.ok()) return status;
  Content content;
  try {
    const std::size_t size = value.size();
    content.metadata = {.shape = {static_cast<std::int64_t>(size)}, .codec = value.id()};
    if (value.id() == 0)
      return with(to).failure(Code::bad_argument, "send_encoded", at, "the codec's id is 0",
                              "0 stands for plain tensors");
    if (size != 0) {
      content.tensor =
          Tensor(p2p::make_storage(local_.data, size), 0, DType::u8, content.metadata.shape);
      value.encode({content.tensor.data(), size});
      content.owned = true;
      const SessionLock lock(with(to));
      with(to).sender().count_copied(size);
    }
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return caught_status();
  } catch (const std::exception& error) {
    return with(to).failure(Code::bad_argument, "send_encoded", at,
                            formatted("the codec threw: {}", error.what()), "");
  }
  return offer(to, at, content, deadline);
}

bool RendezvousState::lent(int to, const KeyStep& at) noexcept {
  if (to < 0 || to >= local_.size || by_rank_[static_cast<std::size_t>(to)] == nullptr)
    return false;
  local_.waiter.poll_once();
  const SessionLock lock(with(to));
  with(to).work();
  return with(to).sender().lent(at);
}

stats::WaitAbout RendezvousState::about_unfetched(stats::WaitDetails& details) const noexcept {
  stats::WaitAbout wait = about(details, "serve", {}, -1);
  for (const auto& session : sessions_) {
    const SessionLock lock(*session);
    if (session->sender().unfetched() != 0 &&
        !details.await(static_cast<std::uint64_t>(session->peer().rank)))
      ++wait.more;
  }
  return wait;
}

Status RendezvousState::serve(Deadline deadline) noexcept {
  // Wait for all sessions at once: a broken session drops its offers in its turn.
  wait([this] { return totals_.offered.load() <= 0; }, [] { return false; }, deadline,
       [this](stats::WaitDetails& details) { return about_unfetched(details); });
  hand_over();
  for (const auto& session : sessions_) {
    const SessionLock lock(*session);
    if (session->sender().take_lost()) return session->usable("serve", {});
  }
  if (totals_.offered.load() <= 0) return {};
  for (const auto& session : sessions_) {
    {
      const SessionLock lock(*session);
      if (session->sender().unfetched() == 0) continue;
    }
    return not_fetched(*session, "serve", "");
  }
  return {};
}

}  // namespace weft::detail
