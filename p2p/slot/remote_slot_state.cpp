// Attach and teardown of the other end, and what both of its kinds share.
#include "p2p/slot/remote_slot_state.hpp"

#include <fmt/format.h>

#include <new>

#include "p2p/slot/grant.hpp"

namespace weft::detail {

RemoteSlotState::RemoteSlotState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                                 p2p::Peer& owner, p2p::Contract asked, bool take_declared,
                                 std::uint64_t id)
    : local_(local),
      mesh_(mesh),
      table_(table),
      owner_(owner),
      id_(id),
      spec_(std::move(asked)),
      take_declared_(take_declared),
      credit_block_(local.control, sizeof(p2p::SlotLine)),
      row_(local.stats, {.name = spec_.name,
                         .slot = id,
                         .state = stats::EdgeState::attaching,
                         .fabric = p2p::name(owner.channel->fabric()),
                         .peer = owner.rank}),
      counters_(row_.counters()),
      gate_([this] {
        local_.progress.post([&mesh = mesh_, &owner = owner_, slot = slot_id_,
                              attachment = attachment_id_] {
          mesh.send(owner, p2p::ClosedAgreedMessage{.slot_id = slot, .attachment_id = attachment});
        });
      }) {
  new (credit_block_.data()) std::atomic<std::uint64_t>(0);
}

p2p::AttachMessage RemoteSlotState::attach_message() const noexcept {
  p2p::AttachMessage message;
  message.take_declared = take_declared_ ? 1 : 0;
  message.remote_id = id_;
  message.tails_up_to = owner_.channel->capabilities().tails_up_to.load();
  const p2p::Block& block = credit_block_.block();
  message.credit_word = {block.chunk, block.offset, sizeof(std::uint64_t)};
  message.spec = p2p::to_wire(spec_);
  return message;
}

void RemoteSlotState::granted(const p2p::AttachedMessage& message) {
  if (attach_state() != Attach::asked) return;
  const auto declared = p2p::from_wire(message.spec);
  const bool reader = declared && declared->writer == p2p::Writer::owner;
  const Result<p2p::RemoteMemory> nothing(p2p::RemoteMemory{});
  const auto lines = owner_.channel->resolve(message.lines);
  const auto buffers = message.stride == 0 ? nothing : owner_.channel->resolve(message.buffers);
  const auto words = reader ? owner_.channel->resolve(message.reader_words) : nothing;
  const auto tails = message.tail_stride == 0 ? nothing : owner_.channel->resolve(message.tails);
  const bool fits = declared && declared->writer == spec_.writer &&
                    (take_declared_ || p2p::same_contract(*declared, spec_)) &&
                    p2p::makes_sense(message, *declared) &&
                    (message.tail_stride == 0 ||
                     p2p::tails_make_sense(message, *declared,
                                           owner_.channel->capabilities().tails_up_to.load()));
  for (const auto* place : {&lines, &buffers, &words, &tails}) {
    if (place->code() != Code::exhausted) continue;
    const ErrorDetail& why = place->status().detail();
    return refused(failure(Code::exhausted, "attach", why.message, why.hint));
  }
  if (!fits || !lines.ok() || !buffers.ok() || !words.ok() || !tails.ok())
    return refused(failure(
        Code::system, "attach",
        fmt::format("rank {} granted the slot with memory that can't be mapped", owner_.rank),
        "this is a defect of weft: please report it with WEFT_LOG=debug"));
  try {
    if (declared->placement == Placement::dynamic) {
      lent_.resize(declared->depth);
      records_ = p2p::OwnedBlock(local_.control, declared->depth * sizeof(p2p::DynamicRecord));
    }
    if (!reader && !owner_.channel->capabilities().copies) in_flight_.reserve(declared->depth);
  } catch (const Error& error) {
    return refused(error.status());
  } catch (const std::bad_alloc&) {
    return refused(failure(Code::exhausted, "attach", "no memory to keep track of puts", ""));
  }
  spec_ = *declared;
  bytes_ = p2p::payload_bytes(spec_);
  credits_ = spec_.flow == Flow::credits || local_.check_flow;
  slot_id_ = message.slot_id;
  attachment_id_ = message.attachment_id;
  lines_ = *lines;
  buffers_ = *buffers;
  stride_ = message.stride;
  known_released_.store(message.released, std::memory_order_relaxed);
  sent_.store(message.sequence, std::memory_order_relaxed);
  sent_before_ = message.sequence;
  index_ = message.sequence % spec_.depth;
  notification_id_ = message.notification_id;
  taken_back_ = message.sequence;
  payloads_ = stride_ == 0 ? at(lines_, offsetof(p2p::SlotLine, payload)) : buffers_;
  payload_stride_ = stride_ == 0 ? sizeof(p2p::SlotLine) : stride_;
  tails_ = *tails;
  tail_stride_ = message.tail_stride;
  if (reader) begin_reading(message, *words);
  counters_.control_messages.add(2);
  row_.set_role(reader ? Role::views : Role::puts);
  row_.set_state(stats::EdgeState::live);
  local_.recorder.control(stats::Event::attach_granted, owner_.rank, id_, message.sequence);
  attach_.store(Attach::granted, std::memory_order_release);
  local_.ring();
}

void RemoteSlotState::refused(Status why) {
  if (attach_state() != Attach::asked) return;
  local_.recorder.control(stats::Event::attach_refused, owner_.rank, id_,
                          static_cast<std::uint64_t>(why.code()));
  refusal_ = std::move(why);
  attach_.store(Attach::refused, std::memory_order_release);
  local_.ring();
}

void RemoteSlotState::owner_closed() {
  counters_.control_messages.add(1);
  local_.recorder.control(stats::Event::owner_closed, owner_.rank, id_);
  gate_.shut();
  local_.ring();
}

p2p::DetachMessage RemoteSlotState::detach_message() const noexcept {
  return {.slot_id = slot_id_, .attachment_id = attachment_id_, .remote_id = id_};
}

void RemoteSlotState::use_queue_pair(int index) {
  const auto refuse = [&](const std::string& why, const char* hint) {
    failure(Code::bad_argument, "use_queue_pair", why, hint).or_throw();
  };
  if (index < 0 || index >= queue_pairs())
    refuse(fmt::format("there is no queue pair {}: rank {} is reached by {}", index, owner_.rank,
                       queue_pairs()),
           "WEFT_QPS_PER_PEER sets how many there are");
  // A slot's puts keep their order by going one way.
  if (sent_.load() != sent_before_ || pending_count_.load() != 0)
    refuse("this end has put already", "choose before the first put");
  queue_pair_ = index;
}

bool RemoteSlotState::broken() const noexcept {
  if (gate_.is_shut()) return true;
  if (mesh_.gone_count() == 0) return false;
  return owner_.gone() || !mesh_.peer_status(needs_, needed_).ok();
}

Status RemoteSlotState::usable(const char* operation) const noexcept {
  // A rank that is gone explains a slot that is closed, its owner's or another's.
  Status peer_status = peer_failure(operation);
  if (!peer_status.ok() || !gate_.is_shut()) return peer_status;
  const std::string cause = mesh_.likely_cause();
  return failure(
      Code::closed, operation,
      fmt::format("its owner, rank {} (host {}), has closed it", owner_.rank, owner_.host()),
      cause.empty() ? "attach again once it is exposed again" : cause);
}

Status RemoteSlotState::peer_failure(const char* operation) const {
  Status peer_status = mesh_.peer_status(needs_, needed_);
  if (peer_status.ok()) peer_status = mesh_.peer_status(owner_.rank);
  if (peer_status.ok()) return {};
  ErrorDetail detail = peer_status.detail();
  detail.operation = operation;
  detail.slot = spec_.name;
  return Status(std::move(detail));
}

Status RemoteSlotState::failure(Code code, const char* operation, std::string message,
                                std::string hint) const {
  return Status(ErrorDetail{.code = code,
                            .operation = operation,
                            .message = std::move(message),
                            .hint = std::move(hint),
                            .rank = local_.rank,
                            .peer = owner_.rank,
                            .host = owner_.host(),
                            .slot = spec_.name});
}

EdgeReport RemoteSlotState::report() const {
  EdgeReport edge;
  edge.peer = owner_.rank;
  edge.slot = spec_.name;
  edge.role = spec_.writer == p2p::Writer::peer ? Role::puts : Role::views;
  edge.fabric = p2p::name(owner_.channel->fabric());
  edge.counters = counters_.read();
  return edge;
}

}  // namespace weft::detail
