// The receiver's side of a session: requests, memory for their results, outcomes.
#include <fmt/format.h>

#include "p2p/rendezvous/peer_session.hpp"

namespace weft::p2p::rendezvous {

KeyStep PeerSession::at(const Item& item) const noexcept {
  return {requests_.keys().name(item.key), item.step};
}

Result<Tensor> PeerSession::make_room(const Metadata& metadata) noexcept {
  try {
    return Tensor(make_storage(local_.data, metadata.bytes()), 0, metadata.dtype, metadata.shape);
  } catch (const Error& error) {
    return error.status();
  }
}

MemoryRef PeerSession::place_of(const Tensor& result) const noexcept {
  if (result.empty()) return {};
  const auto block = local_.data->locate(result.data(), result.bytes());
  return {block->chunk, block->offset, result.bytes()};
}

bool PeerSession::take_known(const KeyStep& at, Ticket& ticket) noexcept {
  using Known = RequestGroups::Known;
  Item* item = nullptr;
  switch (requests_.known(requests_.number_of(at.key), at.step, item)) {
    case Known::no:
      return false;
    case Known::left_behind:
      item->waited = true;
      --left_behind_;
      ticket.item = item;
      return true;
    case Known::being_received:
      ticket.refused =
          failure(Code::bad_argument, "recv", at,
                  item->cancelled ? "it was cancelled and the sender has not agreed yet"
                                  : "another call is receiving it",
                  "each key and step is received once");
      return true;
    case Known::received:
      ticket.refused = failure(Code::bad_argument, "recv", at, "it was received before",
                               "each key and step is exchanged once: use another step");
      return true;
  }
  return false;
}

void PeerSession::ask(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                      std::size_t& next) noexcept {
  while (next < wanted.size()) {
    if (take_known(wanted[next], tickets[next])) {
      ++next;
      continue;
    }
    if (Status status = usable("recv", wanted[next]); !status.ok()) {
      tickets[next++].refused = std::move(status);
      continue;
    }
    if (!ask_in_one_message(wanted, tickets, next)) return;
  }
}

void PeerSession::ask_on(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                         std::size_t& next) noexcept {
  ask(wanted, tickets, next);
  if (next == wanted.size()) return;
  // All groups are in use: finishing tickets that are done may free some.
  bool made_room = false;
  for (std::size_t i = 0; i < next; ++i) {
    if (tickets[i].outcome || tickets[i].item == nullptr || !tickets[i].item->done()) continue;
    tickets[i].outcome = finish(wanted[i], tickets[i]);
    made_room = true;
  }
  if (made_room) ask(wanted, tickets, next);
}

bool PeerSession::ask_in_one_message(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                                     std::size_t& next) {
  if (!requests_.begin_group()) return false;
  const RequestId group = requests_.begun();
  MessageWriter writer(draft(), RendezvousMessage::tensor_request, group.group, group.generation);
  bool by_control = false;
  std::uint32_t unknown_chunk = 0;
  for (; next < wanted.size(); ++next) {
    const KeyStep& at = wanted[next];
    if (take_known(at, tickets[next])) continue;
    const std::uint32_t number = requests_.keys().find(at.key);
    RequestGroups::Key& key = requests_.key(number);
    Item* item = requests_.add(number, at.step);
    if (item == nullptr) break;
    Ask ask;
    ask.item = item->id.item;
    ask.step = at.step;
    if (spec_.cache_metadata && key.metadata) {
      item->metadata = *key.metadata;
      ask.metadata = key.metadata;
      if (item->metadata.bytes() != 0) {
        auto room = make_room(item->metadata);
        if (!room.ok()) {
          tickets[next].refused = room.status();
          requests_.take_back(*item);
          continue;
        }
        item->result = *room;
        ask.destination = place_of(item->result);
        peer_.channel->grant(*notification_id_ + word_index(item->id), ask.destination);
      }
    }
    // The peer does not know the destination's chunk, so the message goes on the control channel,
    // after the message that shares the chunk. The message may overtake those in the
    // slot, so it carries the key's name rather than an index that they announced.
    const bool unknown = ask.destination.bytes != 0 && !peer_knows(ask.destination.chunk);
    const bool fits_kind =
        writer.count() == 0 ||
        (unknown == by_control && (!unknown || unknown_chunk == ask.destination.chunk));
    if (spec_.index_keys && !unknown) ask.index = number;
    if (!ask.index || !key.announced) ask.name = requests_.keys().name(number);
    if (!fits_kind || !writer.add(ask)) {
      requests_.take_back(*item);
      break;
    }
    if (ask.index) key.announced = true;
    by_control = item->by_control = unknown;
    if (unknown) unknown_chunk = ask.destination.chunk;
    tickets[next].item = item;
    observe(RendezvousMessage::tensor_request, true, at, !ask.name.empty(),
            ask.metadata.has_value());
    if (!spec_.batch_requests) {
      ++next;
      break;
    }
  }
  requests_.end_group();
  if (writer.count() == 0) return true;
  const auto message = writer.finish();
  if (by_control)
    post_by_control(message, unknown_chunk);
  else
    post(message);
  return true;
}

void PeerSession::learn_chunk(const Item& item) noexcept {
  // Any answer proves that the peer has read the request, and the shared chunk before it.
  if (item.by_control && !item.result.empty()) known_chunks_.insert(place_of(item.result).chunk);
}

void PeerSession::on_metadata(const RequestId& id, const MetadataAnswer& answer) noexcept {
  Item* item = requests_.find(id);
  if (item == nullptr) return;
  if (item->cancelled) {
    if (answer.metadata.bytes() != 0) return;  // the answer to the cancel is under way
    --left_behind_;
    --cancelled_;
    requests_.release(*item, false);
    changed_ = true;
    return;
  }
  observe(RendezvousMessage::meta_data_response, false, at(*item));
  learn_chunk(*item);
  item->metadata = answer.metadata;
  if (spec_.cache_metadata) requests_.key(item->key).metadata = answer.metadata;
  item->result = {};
  item->by_control = false;
  changed_ = true;
  if (item->metadata.bytes() == 0) {
    item->ended.store(true, std::memory_order_release);
    return;
  }
  auto room = make_room(item->metadata);
  if (!room.ok()) {
    send_cancel(*item);
    item->failure = failure(
        room.code(), "recv", at(*item),
        fmt::format("no room for {}{} of rank {}: {}", name(answer.metadata.dtype),
                    answer.metadata.shape.text(), peer_.rank, room.status().detail().message),
        room.status().detail().hint);
    item->ended.store(true, std::memory_order_release);
    return;
  }
  item->result = *room;
  const MemoryRef place = place_of(item->result);
  peer_.channel->grant(*notification_id_ + word_index(id), place);
  item->by_control = !peer_knows(place.chunk);
  observe(RendezvousMessage::tensor_re_request, true, at(*item));
  MessageWriter writer(draft(), RendezvousMessage::tensor_re_request, id.group, id.generation);
  writer.add(AskAgain{.item = id.item, .destination = place});
  if (item->by_control)
    post_by_control(writer.finish(), place.chunk);
  else
    post(writer.finish());
}

void PeerSession::on_error(const RequestId& id, const ErrorAnswer& answer) noexcept {
  Item* item = requests_.find(id);
  if (item == nullptr) return;
  observe(RendezvousMessage::error_status, false, at(*item));
  learn_chunk(*item);
  changed_ = true;
  if (item->cancelled) {
    --left_behind_;
    --cancelled_;
    requests_.release(*item, false);
    return;
  }
  item->failure = failure(answer.code, "recv", at(*item), std::string(answer.text),
                          fmt::format("rank {} reported this; look at its output", peer_.rank));
  item->ended.store(true, std::memory_order_release);
}

Result<Received> PeerSession::finish(const KeyStep& at, Ticket& ticket) noexcept {
  if (ticket.outcome) return *std::move(ticket.outcome);
  if (ticket.item == nullptr) {
    if (!ticket.refused.ok()) return ticket.refused;
    if (Status status = usable("recv", at); !status.ok()) return status;
    return failure(
        Code::timeout, "recv", at,
        fmt::format("{} requests to rank {} (host {}) are not answered{}", requests_.live(),
                    peer_.rank, peer_.host(), mesh_.suspicion(peer_.rank)),
        "receive fewer at once, or a longer deadline: WEFT_TIMEOUT");
  }
  Item& item = *ticket.item;
  if (item.done()) {
    learn_chunk(item);
    Status failed = item.failure;
    // The peer set the word, possibly before this rank had given it memory for the tensor.
    if (failed.ok() && item.result.bytes() != item.metadata.bytes())
      failed = failure(Code::system, "recv", at,
                       fmt::format("rank {} reports the tensor as written, but was not told "
                                   "where",
                                   peer_.rank),
                       "this is a defect of weft: please report it with WEFT_LOG=debug");
    Received received{.tensor = std::move(item.result),
                      .is_dead = item.metadata.dead,
                      .codec = item.metadata.codec};
    if (failed.ok()) {
      if (item.metadata.bytes() == 0 && !item.metadata.dead)
        received.tensor = Tensor(nullptr, 0, item.metadata.dtype, item.metadata.shape);
      observe(RendezvousMessage::tensor, false, at);
      received_.transfers.add(1);
      received_.bytes_moved.add(item.metadata.bytes());
    }
    requests_.release(item, true);
    if (requests_.free_groups() == 1) changed_ = true;  // another call may wait for a free group
    if (!failed.ok()) return failed;
    return received;
  }
  if (Status status = usable("recv", at); !status.ok()) {
    if (peer_.silent.load() || (!peer_.gone() && !stopped_.load())) {
      requests_.release(item, false);
    } else {
      item.waited = false;
      ++left_behind_;
    }
    return status;
  }
  item.waited = false;
  ++left_behind_;
  return failure(Code::timeout, "recv", at,
                 fmt::format("rank {} (host {}) has not offered it{}", peer_.rank, peer_.host(),
                             mesh_.suspicion(peer_.rank)),
                 "is the sender at the same step? the request stays: receive it again, or cancel "
                 "it; a longer deadline: WEFT_TIMEOUT");
}

Status PeerSession::cancel(const KeyStep& at) noexcept {
  Item* item = nullptr;
  const std::uint32_t number = requests_.keys().find(at.key);
  if (number == KeyNames::kNone ||
      requests_.known(number, at.step, item) != RequestGroups::Known::left_behind)
    return failure(Code::bad_argument, "cancel", at, "no request was left behind by a timeout",
                   "only a request that no call waits for can be cancelled");
  if (item->done()) {
    requests_.release(*item, true);
    --left_behind_;
    return {};
  }
  item->cancelled = true;
  ++cancelled_;
  if (!broken()) send_cancel(*item);
  return {};
}

void PeerSession::send_cancel(Item& item) noexcept {
  observe(RendezvousMessage::cancel, true, at(item));
  MessageWriter writer(draft(), RendezvousMessage::cancel, item.id.group, item.id.generation);
  writer.add(CancelAsk{.item = item.id.item});
  // The cancel must not overtake the request.
  if (item.by_control)
    post_by_control(writer.finish(), place_of(item.result).chunk);
  else
    post(writer.finish());
}

void PeerSession::reap() noexcept {
  requests_.for_each_left_behind([this](Item& item) {
    if (!item.cancelled || !item.done()) return;
    --left_behind_;
    --cancelled_;
    requests_.release(item, true);
    changed_ = true;
  });
}

void PeerSession::begin_close() noexcept {
  closing_ = true;
  std::vector<RequestId> unanswered = offers_.clear();
  for (const Match& match : unmoved_) unanswered.push_back(match.request.id);
  unmoved_.clear();
  if (!broken())
    for (const RequestId& id : unanswered)
      answer_error(id, {}, Code::closed, "the sender has closed its end of the rendezvous");
  requests_.for_each_left_behind([this](Item& item) {
    if (item.cancelled) return;
    if (item.done()) {
      --left_behind_;
      requests_.release(item, true);
      return;
    }
    item.cancelled = true;
    ++cancelled_;
    if (!broken()) send_cancel(item);
  });
  work();
}

}  // namespace weft::p2p::rendezvous
