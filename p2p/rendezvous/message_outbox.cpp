#include "p2p/rendezvous/message_outbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"

namespace weft::p2p::rendezvous {
namespace {

// Exceeds the number of messages pending or under way, so the ring never overwrites a message that
// a put still reads.
constexpr std::size_t kDrafts = detail::PutWriter::kMaxPending + SessionContext::kDepth + 2;

}  // namespace

MessageOutbox::MessageOutbox(SessionContext& session)
    : session_(session),
      drafts_(make_storage(session.local.data, kDrafts * session.spec.message_bytes)),
      chunk_(session.local.data->locate(drafts_->data(), drafts_->bytes())->chunk) {
  const std::size_t bytes = session.spec.message_bytes;
  for (std::size_t i = 0; i < kDrafts; ++i)
    draft_tensors_.emplace_back(drafts_, i * bytes, DType::u8,
                                Shape{static_cast<std::int64_t>(bytes)});
}

MessageOutbox::~MessageOutbox() {
  if (slot_) session_.slots.detach(std::move(slot_));
}

void MessageOutbox::attach(Deadline deadline) {
  slot_ = session_.slots.attach(session_.peer.rank, session_.message_slot(session_.local.rank),
                                false, deadline);
}

std::span<std::byte> MessageOutbox::draft() noexcept {
  return {draft_tensors_[next_draft_].data(), session_.spec.message_bytes};
}

bool MessageOutbox::put_draft() noexcept {
  using Crowded = detail::PutWriter::Crowded;
  weft::Request put = slot_->put(draft_tensors_[next_draft_], Until::reusable, Crowded::refuse);
  if (put.test()) {
    // A task must not wait, not even for the reason of a failure.
    if (put.wait(Deadline::at({})).code() == Code::exhausted) return false;
  } else {
    puts_pending_ = slot_->move_pending();
  }
  next_draft_ = (next_draft_ + 1) % kDrafts;
  return true;
}

void MessageOutbox::post(std::span<const std::byte> message) {
  session_.sent.control_messages.add(1);
  if (!unsent_.empty() || !put_draft()) unsent_.emplace_back(message.begin(), message.end());
}

void MessageOutbox::send_held_up() noexcept {
  if (puts_pending_) puts_pending_ = slot_->move_pending();
  while (!unsent_.empty()) {
    std::ranges::copy(unsent_.front(), draft().begin());
    if (!put_draft()) return;
    unsent_.pop_front();
  }
}

void MessageOutbox::drop() noexcept {
  unsent_.clear();
  puts_pending_ = false;
}

void MessageOutbox::post_by_control(std::span<const std::byte> message, std::uint32_t chunk) {
  session_.sent.control_messages.add(1);
  auto on_control = std::make_shared<RendezvousOnControl>();
  on_control->name.set(session_.shared_name);
  std::ranges::copy(message, on_control->bytes.begin());
  session_.local.progress.post([&mesh = session_.mesh, &peer = session_.peer, chunk, on_control] {
    mesh.share(peer, chunk);
    mesh.send(peer, *on_control);
  });
}

Status MessageOutbox::end_status() const noexcept {
  if (lacks_memory_.load())
    return refuse(Code::exhausted, [this] {
      return ErrorDetail{.message = fmt::format("the exchange with rank {} (host {}) has ended, "
                                                "because this rank ran out of memory",
                                                session_.peer.rank, session_.peer.host()),
                         .hint = "free memory, and open another rendezvous",
                         .peer = session_.peer.rank};
    });
  Status peer_status = session_.mesh.peer_status(session_.peer.rank);
  if (!peer_status.ok()) return peer_status;
  return refuse(Code::closed, [this] {
    return ErrorDetail{
        .message = stopped() ? "this rank is leaving the job"
                             : fmt::format("rank {} (host {}) has closed its end of the rendezvous",
                                           session_.peer.rank, session_.peer.host()),
        .hint = session_.mesh.likely_cause(),
        .peer = session_.peer.rank,
        .host = session_.peer.host()};
  });
}

Status MessageOutbox::usable(const char* operation, const KeyStep& at) const noexcept {
  if (!broken()) return {};
  return altered(end_status(), [&](ErrorDetail& detail) {
    detail.operation = operation;
    detail.rank = session_.local.rank;
    if (!at.key.empty())
      detail.message = fmt::format("{} (key \"{}\", step {})", detail.message, at.key, at.step);
  });
}

}  // namespace weft::p2p::rendezvous
