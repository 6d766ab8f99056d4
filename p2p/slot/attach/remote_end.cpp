#include "p2p/slot/attach/remote_end.hpp"

#include <fmt/format.h>

#include <new>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/slot/attach/grant.hpp"
#include "p2p/slot/attach/slot_line.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

RemoteEnd::RemoteEnd(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                     p2p::Peer& owner, p2p::Contract asked, bool take_declared, std::uint64_t id)
    : local_(local),
      mesh_(mesh),
      table_(table),
      owner_(owner),
      id_(id),
      asked_(std::move(asked)),
      take_declared_(take_declared),
      credit_block_(local.control, sizeof(p2p::SlotLine)),
      row_(local.stats, {.name = asked_.name,
                         .slot = id,
                         .state = stats::EdgeState::attaching,
                         .fabric = p2p::name(owner.channel->fabric()),
                         .peer = owner.rank}),
      counters_(row_.counters()),
      needs_(mesh),
      gate_([this] {
        local_.progress.post([&mesh = mesh_, &owner = owner_,
                              slot = slot_id_.load(std::memory_order_relaxed),
                              attachment = attachment_id_] {
          mesh.send(owner, p2p::ClosedAgreedMessage{.slot_id = slot, .attachment_id = attachment});
        });
      }) {
  new (credit_block_.data()) std::atomic<std::uint64_t>(0);
}

p2p::AttachMessage RemoteEnd::attach_message() const noexcept {
  p2p::AttachMessage message;
  message.take_declared = take_declared_ ? 1 : 0;
  message.remote_id = id_;
  message.tails_up_to = owner_.channel->capabilities().tails_up_to.load();
  const p2p::Block& block = credit_block_.block();
  message.credit_word = {block.chunk, block.offset, sizeof(std::uint64_t)};
  message.spec = p2p::to_wire(asked_);
  if (local_.gpus != nullptr && local_.gpus->is_used()) message.chunk_bytes = local_.gpu_staging;
  return message;
}

void RemoteEnd::granted(const p2p::AttachedMessage& message) {
  if (answer_.state() != p2p::AttachAnswer::State::asked) return;
  const auto declared = p2p::from_wire(message.spec);
  const bool reader = asked_.writer == p2p::Writer::owner;
  const Result<p2p::RemoteMemory> nothing(p2p::RemoteMemory{});
  const auto lines = owner_.channel->resolve(message.lines);
  const auto buffers = message.stride == 0 ? nothing : owner_.channel->resolve(message.buffers);
  const auto words = reader ? owner_.channel->resolve(message.reader_words) : nothing;
  const auto tails = message.tail_stride == 0 ? nothing : owner_.channel->resolve(message.tails);
  const auto chunk_words =
      message.chunk_bytes == 0 ? nothing : owner_.channel->resolve(message.chunk_words);
  const bool fits = declared && declared->writer == asked_.writer &&
                    (take_declared_ || p2p::same_contract(*declared, asked_)) &&
                    p2p::makes_sense(message, *declared) &&
                    p2p::granted_chunks(message, *declared) &&
                    (message.gpu_stride == 0 || p2p::gpu_buffers_make_sense(message, *declared)) &&
                    (message.tail_stride == 0 ||
                     p2p::tails_make_sense(message, *declared,
                                           owner_.channel->capabilities().tails_up_to.load()));
  for (const auto* place : {&lines, &buffers, &words, &tails, &chunk_words}) {
    if (place->code() != Code::exhausted) continue;
    const ErrorDetail& why = place->status().detail();
    return refused(failure(Code::exhausted, "attach", why.message, why.hint));
  }
  if (!fits || !lines.ok() || !buffers.ok() || !words.ok() || !tails.ok() || !chunk_words.ok())
    return refused(failure(
        Code::system, "attach",
        fmt::format("rank {} granted the slot with memory that can't be mapped", owner_.rank),
        "this is a defect of weft: please report it with WEFT_LOG=debug"));
  try {
    take_grant(message, *declared,
               {.lines = *lines,
                .buffers = *buffers,
                .reader_words = *words,
                .tails = *tails,
                .chunk_words = *chunk_words});
  } catch (const Error& error) {
    return refused(error.status());
  } catch (const std::bad_alloc&) {
    return refused(failure(Code::exhausted, "attach", "no memory to keep track of the slot", ""));
  }
  slot_id_.store(message.slot_id, std::memory_order_relaxed);
  attachment_id_ = message.attachment_id;
  counters_.control_messages.add(2);
  row_.set_role(reader ? Role::views : Role::puts);
  row_.set_state(stats::EdgeState::live);
  local_.recorder.control(stats::Event::attach_granted, owner_.rank, id_, message.sequence);
  answer_.grant();
  local_.ring();
}

void RemoteEnd::refused(Status why) {
  if (answer_.state() != p2p::AttachAnswer::State::asked) return;
  local_.recorder.control(stats::Event::attach_refused, owner_.rank, id_,
                          static_cast<std::uint64_t>(why.code()));
  answer_.refuse(std::move(why));
  local_.ring();
}

void RemoteEnd::owner_closed() {
  counters_.control_messages.add(1);
  local_.recorder.control(stats::Event::owner_closed, owner_.rank, id_);
  gate_.shut();
  local_.ring();
}

p2p::DetachMessage RemoteEnd::detach_message() const noexcept {
  return {.slot_id = slot_id_, .attachment_id = attachment_id_, .remote_id = id_};
}

bool RemoteEnd::broken() const noexcept {
  if (gate_.is_shut()) return true;
  if (mesh_.gone_count() == 0) return false;
  return owner_.gone() || !needs_.status().ok();
}

Status RemoteEnd::usable(const char* operation) const noexcept {
  // A rank that is gone explains a slot that is closed, its owner's or another's.
  Status peer_status = peer_failure(operation);
  if (!peer_status.ok() || !gate_.is_shut()) return peer_status;
  const std::string cause = mesh_.likely_cause();
  return failure(
      Code::closed, operation,
      formatted("its owner, rank {} (host {}), has closed it", owner_.rank, owner_.host()),
      cause.empty() ? "attach again once it is exposed again" : cause);
}

Status RemoteEnd::peer_failure(const char* operation) const noexcept {
  Status peer_status = needs_.status();
  if (peer_status.ok()) peer_status = mesh_.peer_status(owner_.rank);
  if (peer_status.ok()) return {};
  return refuse(peer_status.code(), [&] {
    ErrorDetail detail = peer_status.detail();
    detail.operation = operation;
    detail.slot = asked_.name;
    return detail;
  });
}

Status RemoteEnd::failure(Code code, const char* operation, std::string_view message,
                          std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = std::string(message),
                       .hint = std::string(hint),
                       .rank = local_.rank,
                       .peer = owner_.rank,
                       .host = owner_.host(),
                       .slot = asked_.name};
  });
}

EdgeReport RemoteEnd::report() const {
  EdgeReport edge;
  edge.peer = owner_.rank;
  edge.slot = asked_.name;
  edge.role = asked_.writer == p2p::Writer::peer ? Role::puts : Role::views;
  edge.fabric = p2p::name(owner_.channel->fabric());
  edge.counters = row_.read_counters();
  if (const char* why = staged_because_.load(std::memory_order_relaxed); why != nullptr) {
    edge.way = "staged";
    edge.reason = why;
  } else if (is_mapped_.load(std::memory_order_relaxed)) {
    edge.way = "mapped";
    edge.reason = edge.role == Role::puts
                      ? p2p::cuda::reason_of(p2p::cuda::GpuWay::mapped)
                      : "this rank's GPU copies from the owner's memory, which is mapped here";
  } else if (by_nic_.load(std::memory_order_relaxed)) {
    edge.way = "gpudirect";
    edge.reason = p2p::cuda::reason_of(p2p::cuda::GpuWay::nic);
  }
  return edge;
}

}  // namespace weft::detail
