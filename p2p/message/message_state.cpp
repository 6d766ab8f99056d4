// Message operations: their lifetime, progress and outcome.
#include "p2p/message/message_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/message/waiting.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::WaitEnd;
using Stage = MessageOperation::Stage;

namespace {

// Far more than a fabric takes to give up a put to a peer that does not answer.
constexpr std::chrono::seconds kLanding{20};
/// More than a ring holds.
constexpr int kMostRounds = 256;

}  // namespace

MessageState::MessageState(p2p::LocalRank& local, p2p::Mesh& mesh)
    : local_(local),
      mesh_(mesh),
      unseen_(local),
      outgoing_at_(new std::atomic<OutgoingRing*>[static_cast<std::size_t>(local.size)] {}),
      incoming_at_(new std::atomic<IncomingRing*>[static_cast<std::size_t>(local.size)] {}),
      posted_(local.size) {
  local.waiter.progress_registry().admit(*this);
}

void MessageState::end() noexcept {
  if (std::exchange(has_ended_, true)) return;
  life_.end();
  unseen_.finish();
  local_.waiter.progress_registry().acquire(*this);
  local_.waiter.progress_registry().dismiss(*this);
  while (MessageOperation* const receive = readings_.first()) put_back(*receive);
  const auto completed = [this] {
    return std::all_of(outgoing_.begin(), outgoing_.end(),
                       [](const auto& outgoing) { return outgoing->has_completed(); });
  };
  if (!completed() && !local_.waiter.wait_alone(completed, kLanding))
    for (auto& outgoing : outgoing_) (void)outgoing.release();  // leak: a NIC may still read it
}

Status MessageState::failure(Code code, const char* operation, int peer, std::string_view message,
                             std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = std::string(message),
                       .hint = std::string(hint),
                       .rank = local_.rank,
                       .peer = peer,
                       .host = peer < 0 ? "" : mesh_.peer(peer).host()};
  });
}

Status MessageState::gone(const char* operation, int peer) const noexcept {
  const Status peer_status = mesh_.peer_status(peer);
  if (peer_status.ok()) return peer_status;
  return refuse(peer_status.code(), [&] {
    ErrorDetail detail = peer_status.detail();
    detail.operation = operation;
    return detail;
  });
}

Status MessageState::check(const char* operation, int rank) const noexcept {
  if (rank >= 0 && rank < local_.size) return {};
  return failure(Code::bad_argument, operation, -1,
                 formatted("there is no rank {} in a job of {}", rank, local_.size),
                 formatted("ranks go from 0 to {}", local_.size - 1));
}

Status MessageState::check(const char* operation, int rank, const Tensor& tensor) const noexcept {
  if (Status status = check(operation, rank); !status.ok()) return status;
  if (lacks_host_memory(tensor))
    return failure(Code::bad_argument, operation, rank,
                   text_or_empty([&] { return no_host_memory("the tensor", tensor); }),
                   tensor.memory().is_gpu()
                       ? give_host_memory(tensor)
                       : "an empty message is that of a tensor without elements, of shape {0}");
  if (is_misplaced(tensor)) try {
      local_.gpus->check_host(operation, tensor);
    } catch (...) {
      return caught_status();
    }
  if (!tensor.dense())
    return failure(Code::bad_argument, operation, rank, text_or_empty([&] {
                     return fmt::format("the tensor {} has strides", tensor.text());
                   }),
                   "messages move the bytes of one dense tensor");
  return {};
}

p2p::ProgressResult MessageState::progress(bool may_block) noexcept {
  // Only a thread that may block takes messages: over shared memory, taking one copies it, which is
  // slow for large messages.
  if (may_block) {
    progress();
  } else {
    if (!busy_.empty()) flush();
    if (!readings_.empty()) go_on_reading();
    if (!copies_.empty()) follow_copies();
  }
  if (!busy()) return p2p::ProgressResult::done;
  return awaits_in_silence() ? p2p::ProgressResult::needs_poll : p2p::ProgressResult::notified;
}

void MessageState::progress() noexcept {
  const std::uint32_t gone = mesh_.gone_count();  // before polling, so no earlier message is lost
  take_in_turn();
  if (!readings_.empty()) go_on_reading();
  if (!busy_.empty()) flush();
  if (!copies_.empty()) [[unlikely]]
    follow_copies();
  if (gone != gone_seen_) [[unlikely]]
    notice_gone(gone);
}

/// Takes one message of each ring per round: a busy sender must not starve the others. At most
/// kMostRounds rounds: a sender that never stops must not keep this rank here.
void MessageState::take_in_turn() noexcept {
  IncomingRing* const newest = rings_.load(std::memory_order_acquire);
  if (newest == nullptr) return;
  IncomingRing* const start = next_ring_ != nullptr ? next_ring_ : newest;
  next_ring_ = start->next;
  bool took = true;
  for (int i = 0; took && i < kMostRounds; ++i) {
    took = false;
    IncomingRing* ring = start;
    do {
      took = (ring->ready() && take(*ring)) || took;
      ring = ring->next != nullptr ? ring->next : newest;
    } while (ring != start);
  }
}

void MessageState::notice_gone(std::uint32_t gone_count) noexcept {
  gone_seen_ = gone_count;
  for (const auto& outgoing : outgoing_)
    if (outgoing->is_busy() && outgoing->peer().gone())
      outgoing->fail(gone("send", outgoing->peer().rank),
                     [this](MessageOperation& operation) { end(operation); });
  for (int rank = 0; rank < local_.size; ++rank)
    if (!posted_.list(rank).empty() && mesh_.peer(rank).gone())
      fail_posted(rank, no_more_from(rank));
  if (!posted_.list(kAnySource).empty())
    if (const Status why = no_more_from(kAnySource); !why.ok()) fail_posted(kAnySource, why);
}

MessageOperation& MessageState::take_operation(int peer, const Tag& tag, const Tensor& tensor) {
  MessageOperation* operation = free_.first();
  if (operation != nullptr) {
    free_.remove(*operation);
  } else {
    // Allocate what a read needs now, so that reading never allocates.
    auto reading = std::make_unique<p2p::Reading>();
    reading->pieces.reserve(1);
    operation = &operations_.emplace_back();
    operation->reading = std::move(reading);
  }
  operation->detached = false;
  operation->peer = peer;
  operation->tag = tag;
  operation->tensor = tensor;
  operation->on_gpu = {};
  operation->info = {};
  operation->status = {};
  return *operation;
}

void MessageState::end(MessageOperation& operation) noexcept {
  if (operation.on_gpu.bytes() != 0 && begin_copy(operation)) [[unlikely]]
    return;
  if (!operation.status.ok()) [[unlikely]]
    operation.status = unseen_.keep(operation.status);
  operation.stage = Stage::ended;
  operation.tensor = {};
  if (operation.staged) operation.staged = {};
  if (operation.detached) give_back(operation);
}

void MessageState::give_back(MessageOperation& operation) noexcept {
  operation.stage = Stage::free;
  free_.add(operation);
}

Result<MessageInfo> MessageState::finish(MessageOperation& operation) noexcept {
  Status status = std::move(operation.status);
  const MessageInfo info = operation.info;
  give_back(operation);
  if (!status.ok()) {
    unseen_.look_at(status);
    return status;
  }
  return info;
}

MessageRequest MessageState::watched(MessageRequest request) noexcept {
  if (request.operation_ != nullptr || request.status_.ok()) [[likely]]
    return request;
  request.status_ = unseen_.keep(request.status_);
  request.state_ = this;
  request.life_ = life_.word();
  request.mark_ = life_.mark();
  return request;
}

bool MessageState::test(const MessageRequest& request) noexcept {
  const MessageOperation* const operation = request.operation_;
  if (operation == nullptr) return true;
  if (operation->stage != Stage::ended) {
    local_.waiter.poll_and_progress();
    progress();
    if (operation->stage != Stage::ended) return false;
  }
  unseen_.look_at(operation->status);
  return true;
}

Result<MessageInfo> MessageState::wait(MessageRequest& request, Deadline deadline) noexcept {
  MessageOperation* const operation = request.operation_;
  if (operation == nullptr) {
    if (request.status_.ok()) return request.info_;
    unseen_.look_at(request.status_);
    return request.status_;
  }
  const auto ended = [operation] { return operation->stage == Stage::ended; };
  if (!ended() && wait_until(ended, deadline, *operation) != WaitEnd::ready)
    return late(*operation);
  request.operation_ = nullptr;
  Result<MessageInfo> result = finish(*operation);
  request.status_ = result.status();
  if (result.ok()) request.info_ = *result;
  return result;
}

Status MessageState::cancel(MessageRequest& request) noexcept {
  MessageOperation* const operation = request.operation_;
  if (operation == nullptr) return request.status_;
  progress();
  switch (operation->stage) {
    case Stage::posted:
      posted_.remove(*operation);
      break;
    case Stage::queued:
      outgoing_at(operation->peer)->unqueue(*operation);
      break;
    case Stage::reading:
      return failure(Code::bad_argument, "cancel", operation->info.source,
                     "a message is being read into the tensor", "wait for the request");
    case Stage::copying:
      return failure(
          Code::bad_argument, "cancel", operation->info.source,
          formatted("a message is being copied to {}", operation->on_gpu.memory().text()),
          "wait for the request");
    case Stage::offered:
      return failure(Code::bad_argument, "cancel", operation->peer,
                     "the receiver knows of the tensor and may be reading it",
                     "wait for the request");
    default:
      return wait(request, Deadline::at({})).status();
  }
  const bool receives = operation->stage == Stage::posted;
  operation->status = failure(Code::cancelled, receives ? "recv" : "send", operation->peer,
                              "cancelled before it began", "");
  end(*operation);
  return wait(request, Deadline::at({})).status();
}

void MessageState::abandon(MessageOperation& operation) noexcept {
  // The outcome of a posted receive is lost with its request, so the receive must not match any
  // more.
  if (operation.stage == Stage::posted) {
    posted_.remove(operation);
    end(operation);
  }
  if (operation.stage == Stage::ended)
    give_back(operation);
  else
    operation.detached = true;
}

std::string MessageState::source_text(int from) const noexcept {
  if (from == kAnySource) return "any rank";
  return formatted("rank {} (host {})", from, mesh_.peer(from).host());
}

std::string MessageState::suspicion(int from) const noexcept {
  return from == kAnySource ? std::string() : mesh_.suspicion(from);
}

Status MessageState::wait_all(std::span<MessageRequest> requests, Deadline deadline) noexcept {
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  Status first;
  notice_orphans(requests);
  for (MessageRequest& request : requests)
    if (const auto result = wait(request, until); !result.ok() && first.ok())
      first = result.status();
  return first;
}

Result<std::size_t> MessageState::wait_any(std::span<MessageRequest> requests,
                                           Deadline deadline) noexcept {
  std::size_t found = 0;
  notice_orphans(requests);
  const auto some = [&] {
    const auto ended = [](const MessageRequest& request) {
      return request.operation_ == nullptr || request.operation_->stage == Stage::ended;
    };
    // Start after the request found last: one that is always ready must not hide the others.
    for (std::size_t i = 0; i < requests.size(); ++i) {
      found = (next_any_ + i) % requests.size();
      if (ended(requests[found])) return true;
    }
    return false;
  };
  if (some() || (!requests.empty() && wait_until(some, deadline, requests) == WaitEnd::ready)) {
    next_any_ = found + 1;
    return found;
  }
  constexpr std::size_t kMostTold = 4;  // of which the text tells all
  constexpr std::size_t kMostNamed = 32;
  int peer = -1;
  const std::string text = text_or_empty([&] {
    std::string list = fmt::format("none of {} sends and receives has ended", requests.size());
    for (std::size_t i = 0; i < std::min(requests.size(), kMostNamed); ++i) {
      const Status why = late(*requests[i].operation_);
      if (i < kMostTold)
        list += fmt::format("{} {}", i == 0 ? ":" : ";", why.detail().message);
      else
        list += fmt::format("; {} {} (tag {})", why.detail().operation,
                            source_text(why.detail().peer), requests[i].operation_->tag.value);
      if (peer < 0) peer = why.detail().peer;
    }
    if (requests.size() > kMostNamed)
      list += fmt::format("; and {} more", requests.size() - kMostNamed);
    return list;
  });
  return failure(Code::timeout, "wait_any", peer, text, "a longer deadline: WEFT_TIMEOUT");
}

void MessageState::report(std::vector<EdgeReport>& edges) const {
  const std::lock_guard lock(report_mutex_);
  const auto add = [&](const auto& ring, Role role) {
    EdgeReport edge;
    edge.peer = ring.peer().rank;
    edge.slot = "messages";
    edge.role = role;
    edge.fabric = ring.peer().channel ? std::string(name(ring.peer().channel->fabric())) : "";
    edge.counters = ring.read_counters();
    if (edge.counters.staged_bytes != 0) {
      edge.way = "staged";
      edge.reason = "tensors lie on a GPU, and messages move host memory alone";
    }
    edges.push_back(std::move(edge));
  };
  for (const auto& outgoing : outgoing_) add(*outgoing, Role::puts);
  for (const auto& incoming : incoming_) add(*incoming, Role::receives);
}

}  // namespace weft::detail
