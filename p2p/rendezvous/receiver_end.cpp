#include "p2p/rendezvous/receiver_end.hpp"

#include <memory>
#include <utility>

#include "base/formatted.hpp"

namespace weft::p2p::rendezvous {

ReceiverEnd::ReceiverEnd(SessionContext& session, MessageOutbox& outbox)
    : session_(session),
      outbox_(outbox),
      words_(std::make_shared<OwnedBlock>(session.local.control, kGroups * kGroupBytes)),
      requests_(words_->data(), kGroups) {}

ReceiverEnd::~ReceiverEnd() {
  if (!notification_id_) return;
  // The words must outlive the channel's use of them.
  session_.local.progress.post(
      [&peer = session_.peer, notification_id = *notification_id_, words = std::move(words_)] {
        peer.channel->expect_no_more(notification_id);
      });
}

bool ReceiverEnd::share() {
  if (!session_.mesh.share(session_.peer, words_->block().chunk)) return false;
  notification_id_ = session_.peer.channel->expect(
      {.words = words_->data(), .count = kGroups * kGroupItems, .stride = sizeof(std::uint64_t)});
  return true;
}

Hello ReceiverEnd::hello() const noexcept {
  const Block& block = words_->block();
  return {.groups = kGroups,
          .words = {block.chunk, block.offset, block.bytes},
          .notification_id = *notification_id_};
}

KeyStep ReceiverEnd::at(const Item& item) const noexcept {
  return {requests_.keys().name(item.key), item.step};
}

Result<Tensor> ReceiverEnd::make_room(const Metadata& metadata) {
  try {
    return Tensor(make_storage(session_.local.data, metadata.bytes()), 0, metadata.dtype,
                  metadata.shape);
  } catch (const Error& error) {
    return error.status();
  }
}

MemoryRef ReceiverEnd::place_of(const Tensor& result) const noexcept {
  if (result.empty()) return {};
  const auto block = session_.local.data->locate(result.data(), result.bytes());
  return {block->chunk, block->offset, result.bytes()};
}

bool ReceiverEnd::take_known(const KeyStep& at, Ticket& ticket) {
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
          session_.failure(Code::bad_argument, "recv", at,
                           item->cancelled ? "it was cancelled and the sender has not agreed yet"
                                           : "another call is receiving it",
                           "each key and step is received once");
      return true;
    case Known::received:
      ticket.refused = session_.failure(Code::bad_argument, "recv", at, "it was received before",
                                        "each key and step is exchanged once: use another step");
      return true;
  }
  return false;
}

void ReceiverEnd::ask_while_free(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                                 std::size_t& next) {
  while (next < wanted.size()) {
    if (take_known(wanted[next], tickets[next])) {
      ++next;
      continue;
    }
    if (Status status = outbox_.usable("recv", wanted[next]); !status.ok()) {
      tickets[next++].refused = std::move(status);
      continue;
    }
    if (!ask_in_one_message(wanted, tickets, next)) return;
  }
}

void ReceiverEnd::ask(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                      std::size_t& next) {
  ask_while_free(wanted, tickets, next);
  if (next == wanted.size()) return;
  // All groups are in use: finishing tickets that are done may free some.
  bool made_room = false;
  for (std::size_t i = 0; i < next; ++i) {
    if (tickets[i].outcome || tickets[i].item == nullptr || !tickets[i].item->done()) continue;
    if (!bring_to_gpu(*tickets[i].item)) continue;
    tickets[i].outcome = finish(wanted[i], tickets[i]);
    made_room = true;
  }
  if (made_room) ask_while_free(wanted, tickets, next);
}

bool ReceiverEnd::ask_in_one_message(std::span<const KeyStep> wanted, std::span<Ticket> tickets,
                                     std::size_t& next) {
  if (!requests_.begin_group()) return false;
  const RequestId group = requests_.begun();
  MessageWriter writer(outbox_.draft(), RendezvousMessage::tensor_request, group.group,
                       group.generation);
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
    if (session_.spec.cache_metadata && key.metadata) {
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
        session_.peer.channel->grant(*notification_id_ + word_index(item->id), ask.destination);
      }
    }
    // The peer does not know the destination's chunk, so the message goes on the control channel,
    // after the message that shares the chunk. The message may overtake those in the
    // slot, so it carries the key's name rather than an index that they announced.
    const bool unknown = ask.destination.bytes != 0 && !peer_knows(ask.destination.chunk);
    const bool fits_kind =
        writer.count() == 0 ||
        (unknown == by_control && (!unknown || unknown_chunk == ask.destination.chunk));
    if (session_.spec.index_keys && !unknown) ask.index = number;
    if (!ask.index || !key.announced) ask.name = requests_.keys().name(number);
    if (!fits_kind || !writer.add(ask)) {
      requests_.take_back(*item);
      break;
    }
    if (ask.index) key.announced = true;
    by_control = item->by_control = unknown;
    if (unknown) unknown_chunk = ask.destination.chunk;
    tickets[next].item = item;
    session_.observe(RendezvousMessage::tensor_request, true, at, !ask.name.empty(),
                     ask.metadata.has_value());
    if (!session_.spec.batch_requests) {
      ++next;
      break;
    }
  }
  requests_.end_group();
  if (writer.count() == 0) return true;
  const auto message = writer.finish();
  if (by_control)
    outbox_.post_by_control(message, unknown_chunk);
  else
    outbox_.post(message);
  return true;
}

void ReceiverEnd::learn_chunk(const Item& item) {
  // Any answer proves that the peer has read the request, and the shared chunk before it.
  if (item.by_control && !item.result.empty()) known_chunks_.insert(place_of(item.result).chunk);
}

void ReceiverEnd::on_metadata(const RequestId& id, const MetadataAnswer& answer) {
  Item* item = requests_.find(id);
  if (item == nullptr) return;
  if (item->cancelled) {
    if (answer.metadata.bytes() != 0) return;  // the answer to the cancel is under way
    --left_behind_;
    --cancelled_;
    requests_.release(*item, false);
    session_.changed = true;
    return;
  }
  session_.observe(RendezvousMessage::meta_data_response, false, at(*item));
  learn_chunk(*item);
  item->metadata = answer.metadata;
  if (session_.spec.cache_metadata) requests_.key(item->key).metadata = answer.metadata;
  item->result = {};
  item->by_control = false;
  session_.changed = true;
  if (item->metadata.bytes() == 0) {
    item->ended.store(true, std::memory_order_release);
    return;
  }
  auto room = make_room(item->metadata);
  if (!room.ok()) {
    send_cancel(*item);
    item->failure = session_.failure(
        room.code(), "recv", at(*item),
        formatted("no room for {}{} of rank {}: {}", name(answer.metadata.dtype),
                  answer.metadata.shape.text(), session_.peer.rank, room.status().detail().message),
        room.status().detail().hint);
    item->ended.store(true, std::memory_order_release);
    return;
  }
  item->result = *room;
  const MemoryRef place = place_of(item->result);
  session_.peer.channel->grant(*notification_id_ + word_index(id), place);
  item->by_control = !peer_knows(place.chunk);
  session_.observe(RendezvousMessage::tensor_re_request, true, at(*item));
  MessageWriter writer(outbox_.draft(), RendezvousMessage::tensor_re_request, id.group,
                       id.generation);
  writer.add(AskAgain{.item = id.item, .destination = place});
  if (item->by_control)
    outbox_.post_by_control(writer.finish(), place.chunk);
  else
    outbox_.post(writer.finish());
}

void ReceiverEnd::on_error(const RequestId& id, const ErrorAnswer& answer) {
  Item* item = requests_.find(id);
  if (item == nullptr) return;
  session_.observe(RendezvousMessage::error_status, false, at(*item));
  learn_chunk(*item);
  session_.changed = true;
  if (item->cancelled) {
    --left_behind_;
    --cancelled_;
    requests_.release(*item, false);
    return;
  }
  item->failure = answer.by_application
                      ? session_.failure(answer.code, "send_error", at(*item), answer.text,
                                         formatted("rank {} sent this error; look at its output",
                                                   session_.peer.rank))
                      : session_.failure(answer.code, "recv", at(*item), answer.text,
                                         answer.code == Code::exhausted
                                             ? "offer earlier, or raise the sender's "
                                               "RendezvousSpec::max_parked_requests"
                                             : "");
  item->ended.store(true, std::memory_order_release);
}

void ReceiverEnd::leave(const Ticket& ticket) {
  if (ticket.item == nullptr) return;
  ticket.item->waited = false;
  ++left_behind_;
}

Result<Received> ReceiverEnd::finish(const KeyStep& at, Ticket& ticket) {
  if (ticket.outcome) return *std::move(ticket.outcome);
  if (ticket.item == nullptr) {
    if (!ticket.refused.ok()) return ticket.refused;
    if (Status status = outbox_.usable("recv", at); !status.ok()) return status;
    return session_.failure(Code::timeout, "recv", at,
                            formatted("{} requests to rank {} (host {}) are not answered{}",
                                      requests_.live(), session_.peer.rank, session_.peer.host(),
                                      session_.mesh.suspicion(session_.peer.rank)),
                            "receive fewer at once; a longer deadline: WEFT_TIMEOUT");
  }
  Item& item = *ticket.item;
  if (item.done()) {
    learn_chunk(item);
    Status failed = item.failure;
    // The peer set the word, possibly before this rank had given it memory for the tensor.
    if (failed.ok() && item.result.bytes() != item.metadata.bytes())
      failed = session_.failure(Code::system, "recv", at,
                                formatted("rank {} reports the tensor as written, but was not told "
                                          "where",
                                          session_.peer.rank),
                                "this is a defect of weft: please report it with WEFT_LOG=debug");
    Received received{.tensor = {}, .is_dead = item.metadata.dead, .codec = item.metadata.codec};
    if (goes_to_gpu(item)) [[unlikely]] {
      auto there = take_from_gpu(at, item);
      if (!there.ok()) return there.status();
      received.tensor = *std::move(there);
    } else {
      received.tensor = std::move(item.result);
    }
    if (failed.ok()) {
      if (item.metadata.bytes() == 0 && !item.metadata.dead)
        received.tensor = Tensor(nullptr, 0, item.metadata.dtype, item.metadata.shape);
      session_.observe(RendezvousMessage::tensor, false, at);
      session_.received.transfers.add(1);
      session_.received.bytes_moved.add(item.metadata.bytes());
    }
    requests_.release(item, true);
    if (requests_.free_groups() == 1)
      session_.changed = true;  // another call may wait for a free group
    if (!failed.ok()) return failed;
    return received;
  }
  if (Status status = outbox_.usable("recv", at); !status.ok()) {
    if (outbox_.peer_writes_no_more()) {
      requests_.release(item, false);
    } else {
      item.waited = false;
      ++left_behind_;
    }
    return status;
  }
  item.waited = false;
  ++left_behind_;
  return session_.failure(
      Code::timeout, "recv", at,
      formatted("rank {} (host {}) has not offered it{}", session_.peer.rank, session_.peer.host(),
                session_.mesh.suspicion(session_.peer.rank)),
      "is the sender at the same step? the request stays: receive it again, or cancel "
      "it; a longer deadline: WEFT_TIMEOUT");
}

Status ReceiverEnd::cancel(const KeyStep& at) {
  Item* item = nullptr;
  const std::uint32_t number = requests_.keys().find(at.key);
  if (number == KeyNames::kNone ||
      requests_.known(number, at.step, item) != RequestGroups::Known::left_behind)
    return session_.failure(Code::bad_argument, "cancel", at,
                            "no request was left behind by a timeout",
                            "only a request that no call waits for can be cancelled");
  if (item->done()) {
    requests_.release(*item, true);
    --left_behind_;
    return {};
  }
  item->cancelled = true;
  ++cancelled_;
  if (!outbox_.broken()) send_cancel(*item);
  return {};
}

void ReceiverEnd::send_cancel(Item& item) {
  session_.observe(RendezvousMessage::cancel, true, at(item));
  MessageWriter writer(outbox_.draft(), RendezvousMessage::cancel, item.id.group,
                       item.id.generation);
  writer.add(CancelAsk{.item = item.id.item});
  // The cancel must not overtake the request.
  if (item.by_control)
    outbox_.post_by_control(writer.finish(), place_of(item.result).chunk);
  else
    outbox_.post(writer.finish());
}

void ReceiverEnd::release_cancelled() {
  requests_.for_each_left_behind([this](Item& item) {
    if (!item.cancelled || !item.done()) return;
    --left_behind_;
    --cancelled_;
    requests_.release(item, true);
    session_.changed = true;
  });
}

void ReceiverEnd::begin_close() {
  requests_.for_each_left_behind([this](Item& item) {
    if (item.cancelled) return;
    if (item.done()) {
      --left_behind_;
      requests_.release(item, true);
      return;
    }
    item.cancelled = true;
    ++cancelled_;
    if (!outbox_.broken()) send_cancel(item);
  });
}

void ReceiverEnd::drop() {
  requests_.for_each_left_behind([this](Item& item) {
    if (item.done() && !item.cancelled) return;  // arrived before the end
    --left_behind_;
    requests_.release(item, false);
  });
  cancelled_ = 0;
}

}  // namespace weft::p2p::rendezvous
