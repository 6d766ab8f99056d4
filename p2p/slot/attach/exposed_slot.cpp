#include "p2p/slot/attach/exposed_slot.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/attach/grant.hpp"

namespace weft::detail {

using p2p::AttachedMessage;
using p2p::AttachMessage;

ExposedSlot::ExposedSlot(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                         p2p::Contract contract, std::uint64_t id)
    : local_(local),
      mesh_(mesh),
      table_(table),
      contract_(std::move(contract)),
      id_(id),
      row_(local.stats,
           {.name = contract_.name,
            .slot = id,
            .role = contract_.writer == p2p::Writer::peer ? Role::receives : Role::publishes}),
      counters_(row_.counters()),
      needs_(mesh),
      attachments_(local, mesh) {}

Status ExposedSlot::admit(p2p::Peer& peer, const AttachMessage& asked, AttachedMessage& granted) {
  const auto expected = p2p::from_wire(asked.spec);
  if (!expected)
    return failure(Code::bad_argument, "attach", "the asker's contract is malformed", "");
  const bool same_kind = expected->writer == contract_.writer;
  const bool by_name = asked.take_declared != 0;
  if (!(by_name ? same_kind : p2p::same_contract(contract_, *expected))) {
    const std::string wanted = by_name ? fmt::format("a slot {}", p2p::written_by(expected->writer))
                                       : p2p::describe(*expected);
    const Status status(ErrorDetail{
        .code = Code::mismatch,
        .operation = "attach",
        .message =
            fmt::format("rank {} (host {}) expects {}; the owner, rank {} (host {}), exposes {}",
                        peer.rank, peer.host(), wanted, local_.rank, mesh_.peer(local_.rank).host(),
                        p2p::describe(contract_)),
        .hint = same_kind ? "give both ends the same specification"
                          : "attach() goes with expose(), attach_published() with "
                            "expose_published()",
        .rank = local_.rank,
        .peer = peer.rank,
        .host = peer.host(),
        .slot = contract_.name});
    local_.log->error(Subsystem::slot, "{}", status.text());
    refused(status);
    return status;
  }
  if (Status status = grant(peer, asked, granted); !status.ok()) return status;
  granted.remote_id = asked.remote_id;
  granted.slot_id = id_;
  granted.spec = p2p::to_wire(contract_);
  counters_.control_messages.add(1);
  row_.set_fabric(p2p::name(peer.channel->fabric()));
  local_.recorder.control(stats::Event::attachment_made, peer.rank, id_, granted.sequence);
  return {};
}

bool ExposedSlot::detach_peer(const p2p::Peer& peer, std::uint64_t remote_id) noexcept {
  for (const auto& attachment : attachments_) {
    if (attachment->peer != &peer || attachment->remote_id != remote_id ||
        !attachment->active.exchange(false))
      continue;
    ended(*attachment);
    if (closed_) --to_agree_;
    local_.recorder.control(stats::Event::attachment_removed, peer.rank, id_);
    local_.ring();
    detached(*attachment);
    return true;
  }
  return false;
}

int ExposedSlot::begin_close() {
  closed_ = true;
  closing();
  for (const auto& attachment : attachments_) {
    // One whose rank was declared dead may still write: its end counts as agreement.
    if (!attachment->active.load()) continue;
    ++to_agree_;
    counters_.control_messages.add(1);
    mesh_.send(*attachment->peer, p2p::ClosedMessage{.remote_id = attachment->remote_id});
  }
  return to_agree_;
}

bool ExposedSlot::agreed(const p2p::Peer& peer, std::uint64_t attachment_id) noexcept {
  local_.recorder.control(stats::Event::close_agreed, peer.rank, id_);
  for (const auto& attachment : attachments_)
    if (attachment->id.load(std::memory_order_relaxed) == attachment_id &&
        attachment->peer == &peer && attachment->active.exchange(false)) {
      ended(*attachment);
      if (closed_) --to_agree_;
    }
  return is_free();
}

bool ExposedSlot::peer_gone(const p2p::Peer& peer) noexcept {
  bool any = false;
  for (const auto& attachment : attachments_) {
    if (attachment->peer != &peer || !attachment->active.exchange(false)) continue;
    any = true;
    ended(*attachment);
    if (closed_) --to_agree_;
  }
  return any && is_free();
}

Status ExposedSlot::not_shared(const p2p::Peer& peer) const {
  return failure(
      Code::exhausted, "attach",
      fmt::format("rank {} (host {}) can't let rank {} (host {}) reach the slot's memory",
                  local_.rank, mesh_.peer(local_.rank).host(), peer.rank, peer.host()),
      "the owner's log says why; more memory may be registered: ulimit -l");
}

Result<p2p::RemoteMemory> ExposedSlot::resolve_credit_word(const Attachment& attachment,
                                                           const AttachMessage& asked) const {
  if (p2p::sort_of_chunk(asked.credit_word.chunk) != p2p::ArenaSort::control ||
      asked.credit_word.bytes != sizeof(std::uint64_t) ||
      asked.credit_word.offset % sizeof(std::uint64_t) != 0)
    return failure(Code::bad_argument, "attach", "the asker's credit word is malformed", "");
  return attachment.peer->channel->resolve(asked.credit_word);
}

Status ExposedSlot::failure(Code code, const char* operation, std::string_view message,
                            std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = std::string(message),
                       .hint = std::string(hint),
                       .rank = local_.rank,
                       .slot = contract_.name};
  });
}

}  // namespace weft::detail
