#include "p2p/rendezvous/sender_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"

namespace weft::p2p::rendezvous {
namespace {

// Far more than a fabric takes to give up a put to a peer that does not answer.
constexpr std::chrono::seconds kLanding{20};

}  // namespace

SenderEnd::SenderEnd(SessionContext& session, MessageOutbox& outbox)
    : session_(session),
      outbox_(outbox),
      offers_({session.spec.max_parked_bytes, session.spec.max_parked,
               session.spec.max_parked_requests}),
      lost_row_(session.local.stats) {}

SenderEnd::~SenderEnd() {
  tell_lost();
  // Puts are still under way only when the whole world is being destroyed.
  const auto completed = [this] {
    land();
    return under_way_.empty();
  };
  if (!session_.local.waiter.wait_alone(completed, kLanding))
    (void)new (std::nothrow) std::vector<UnderWay>(std::move(under_way_));  // leak: still read
}

void SenderEnd::meet(const RemoteMemory& words, std::uint32_t notification_id,
                     std::uint32_t groups) {
  words_there_ = words;
  remote_notification_id_ = notification_id;
  sides_.resize(groups);
}

KeyStep SenderEnd::at(const Match& match) const noexcept {
  return {offers_.keys().name(match.key), match.step};
}

Tensor SenderEnd::clone(const Tensor& tensor) {
  const Tensor copy(make_storage(session_.local.data, tensor.bytes()), 0, tensor.dtype(),
                    tensor.shape());
  std::byte* to = copy.data();
  for_each_run(tensor, [&](const std::byte* run, std::size_t bytes) {
    std::memcpy(to, run, bytes);
    to += bytes;
  });
  count_copied(tensor.bytes());
  return copy;
}

SenderEnd::Offered SenderEnd::offer(const KeyStep& at, Content& content) {
  using Outcome = OfferTable::Outcome;
  if (Status status = outbox_.usable("send", at); !status.ok())
    return {Outcome::full, std::move(status)};
  Match match;
  const std::uint32_t key = number_of(at.key);
  const Outcome outcome = offers_.offer(key, at.step, content, match);
  if (outcome == Outcome::duplicate)
    return {outcome,
            session_.failure(Code::bad_argument, "send", at,
                             formatted("it was offered to rank {} before", session_.peer.rank),
                             "each key and step is exchanged once: use another step")};
  if (outcome == Outcome::matched) answer(std::move(match));
  return {outcome, {}};
}

std::uint32_t SenderEnd::number_of(std::string_view name) {
  return offers_.number_of(name, [this](std::uint32_t key) {
    const auto is_of_key = [key](const Match& match) { return match.key == key; };
    return std::any_of(unmoved_.begin(), unmoved_.end(), is_of_key) ||
           std::any_of(under_way_.begin(), under_way_.end(),
                       [&](const UnderWay& put) { return is_of_key(put.match); });
  });
}

std::uint32_t SenderEnd::key_of(const Ask& ask) {
  if (ask.index && ask.name.empty())
    return *ask.index < key_of_index_.size() ? key_of_index_[*ask.index] : KeyNames::kNone;
  if (offers_.keys().find(ask.name) == KeyNames::kNone && offers_.keys().size() >= kMaxKeys)
    return KeyNames::kNone;
  const std::uint32_t key = number_of(ask.name);
  if (ask.index && *ask.index < kMaxKeys) {
    if (key_of_index_.size() <= *ask.index) key_of_index_.resize(*ask.index + 1, KeyNames::kNone);
    const std::uint32_t before = std::exchange(key_of_index_[*ask.index], key);
    offers_.pin(key);
    if (before != KeyNames::kNone) offers_.unpin(before);
  }
  return key;
}

void SenderEnd::on_ask(const RequestId& id, const Ask& ask) {
  if (id.group >= sides_.size())
    return session_.complain("a request of a group that does not exist");
  Side& side = sides_[id.group];
  if (side.generation != id.generation) side = {.generation = id.generation};
  if (((side.asked >> id.item) & 1) != 0) return session_.complain("the same request twice");
  side.asked |= 1U << id.item;
  const std::uint32_t key = key_of(ask);
  if (key == KeyNames::kNone)
    return answer_error(id, {"", ask.step}, Code::bad_argument, "the key is not known here");
  const KeyStep at{offers_.keys().name(key), ask.step};
  session_.observe(RendezvousMessage::tensor_request, false, at, !ask.name.empty(),
                   ask.metadata.has_value());
  if (closing_)
    return answer_error(id, at, Code::closed, "the sender has closed its end of the rendezvous");
  Match match;
  switch (offers_.ask(key, ask.step, {id, ask.metadata, ask.destination}, match)) {
    case OfferTable::Outcome::parked:
      break;
    case OfferTable::Outcome::matched:
      session_.changed = true;
      answer(std::move(match));
      break;
    case OfferTable::Outcome::duplicate:
      answer_error(id, at, Code::bad_argument, "it was asked for before");
      break;
    case OfferTable::Outcome::full:
      answer_error(id, at, Code::exhausted,
                   formatted("{} requests wait at the sender for tensors that are not there yet",
                             offers_.requests()));
      break;
  }
}

void SenderEnd::answer(Match match) {
  const Content& content = match.content;
  if (content.error != Code::ok)
    return answer_error(match.request.id, at(match), content.error, content.error_text, true);
  if (match.request.metadata == content.metadata) return move(std::move(match));
  session_.observe(RendezvousMessage::meta_data_response, true, at(match));
  MessageWriter writer(outbox_.draft(), RendezvousMessage::meta_data_response,
                       match.request.id.group, match.request.id.generation);
  writer.add(MetadataAnswer{.item = match.request.id.item, .metadata = content.metadata});
  outbox_.post(writer.finish());
  if (content.metadata.bytes() == 0) return session_.sent.transfers.add(1);  // no bytes follow
  // Copy the tensor, so that the caller gets its own back while the receiver allocates memory.
  if (!match.content.owned) {
    try {
      match.content.tensor = clone(match.content.tensor);
      match.content.owned = true;
    } catch (const Error& error) {
      session_.local.log->warn(
          Subsystem::slot, "rendezvous {}: key \"{}\" stays lent until rank {} has made room: {}",
          session_.spec.name, at(match).key, session_.peer.rank, error.what());
    }
  }
  offers_.await(std::move(match));
}

void SenderEnd::on_ask_again(const RequestId& id, const AskAgain& ask) {
  auto match = offers_.take_awaited(id);
  if (!match) return session_.complain("a second request for a tensor whose metadata was not sent");
  session_.observe(RendezvousMessage::tensor_re_request, false, at(*match));
  session_.changed = true;
  match->request.destination = ask.destination;
  move(std::move(*match));
}

void SenderEnd::on_cancel(const RequestId& id) {
  session_.observe(RendezvousMessage::cancel, false, {});
  // If the request was answered already, that answer also answers the cancel.
  if (!offers_.cancel(id)) return;
  session_.changed = true;
  answer_error(id, {}, Code::cancelled, "cancelled by the receiver");
}

void SenderEnd::move(Match match) {
  const Status status = transfer(match);
  if (status.ok()) {
    session_.changed = true;
    return;
  }
  if (status.code() == Code::exhausted) {
    unmoved_.push_back(std::move(match));
    return;
  }
  session_.complain("a destination that is not mapped here");
  answer_error(match.request.id, at(match), status.code(), status.detail().message);
}

Status SenderEnd::transfer(Match& match) {
  const RequestId& id = match.request.id;
  if (sides_[id.group].generation != id.generation) return {};  // abandoned by the receiver
  const std::size_t bytes = match.content.metadata.bytes();
  const MemoryRef& destination = match.request.destination;
  const RemoteMemory word{words_there_.address + word_offset(id), words_there_.key};
  if (bytes == 0) {
    session_.observe(RendezvousMessage::tensor, true, at(match));
    session_.peer.channel->put_word(word, id.generation, Notify::always);
  } else {
    if (destination.bytes != bytes)
      return refuse(Code::mismatch, [&] {
        return ErrorDetail{
            .operation = "send",
            .message = fmt::format("{} bytes do not fit into {} bytes", bytes, destination.bytes)};
      });
    const auto payload = session_.peer.channel->resolve(destination);
    if (!payload.ok()) return payload.status();
    PutWork work;
    work.tensor = &match.content.tensor;
    if (match.content.tensor.dense())
      work.source = match.content.tensor.data();
    else
      work.parts = {&match.content.tensor, 1};
    work.bytes = bytes;
    work.payload = *payload;
    work.sequence_word = word;
    work.sequence = id.generation;
    work.notification_id = remote_notification_id_ + word_index(id);
    work.stream = reinterpret_cast<std::uintptr_t>(this);
    work.depth = kCopyDepth;
    session_.observe(RendezvousMessage::tensor, true, at(match));
    Status status = session_.peer.channel->put(work);
    if (!status.ok()) return status;
    session_.sent.work_requests.add(work.requests);
    if (work.copied != 0) count_copied(work.copied);
    if (work.posted != 0 && !work.source_is_free)
      under_way_.push_back({work.posted, std::move(match)});
  }
  session_.sent.transfers.add(1);
  session_.sent.bytes_moved.add(bytes);
  return {};
}

void SenderEnd::move_on() {
  for (std::size_t i = unmoved_.size(); i-- > 0;) {
    Match match = std::move(unmoved_.front());
    unmoved_.pop_front();
    move(std::move(match));
  }
}

void SenderEnd::land() noexcept {
  std::size_t completed = 0;
  for (; completed < under_way_.size(); ++completed) {
    const auto outcome = session_.peer.channel->poll_put(under_way_[completed].posted);
    if (!outcome) break;
    if (!outcome->ok()) lost_ = true;  // the path has failed, and the session with it
  }
  if (completed == 0) return;
  under_way_.erase(under_way_.begin(), under_way_.begin() + static_cast<std::ptrdiff_t>(completed));
  session_.changed = true;
}

bool SenderEnd::lent(const KeyStep& at) const noexcept {
  const std::uint32_t key = offers_.keys().find(at.key);
  const auto reads = [&](const Match& match) {
    return match.key == key && match.step == at.step && !match.content.owned;
  };
  return offers_.lent(at.key, at.step) || std::ranges::any_of(unmoved_, reads) ||
         std::ranges::any_of(under_way_, [&](const UnderWay& put) { return reads(put.match); });
}

void SenderEnd::answer_error(const RequestId& id, const KeyStep& at, Code code,
                             std::string_view text, bool by_application) {
  session_.observe(RendezvousMessage::error_status, true, at);
  MessageWriter writer(outbox_.draft(), RendezvousMessage::error_status, id.group, id.generation);
  writer.add(
      ErrorAnswer{.item = id.item, .code = code, .by_application = by_application, .text = text});
  outbox_.post(writer.finish());
}

void SenderEnd::begin_close() {
  closing_ = true;
  tell_lost();
  lost_row_.clear();
  std::vector<RequestId> unanswered = offers_.clear();
  for (const Match& match : unmoved_) unanswered.push_back(match.request.id);
  unmoved_.clear();
  if (outbox_.broken()) return;
  for (const RequestId& id : unanswered)
    answer_error(id, {}, Code::closed, "the sender has closed its end of the rendezvous");
}

void SenderEnd::tell_lost() noexcept {
  const std::size_t offers = std::exchange(lost_offers_, 0);
  // Other lines tell of a rank that has died.
  if (offers == 0 || session_.peer.state.load() == PeerState::failed) return;
  session_.local.log->warn(
      Subsystem::slot,
      "rendezvous {}: {} {} offered to rank {} {} not fetched before it left; no serve() has told "
      "the program",
      session_.spec.name, offers, offers == 1 ? "tensor" : "tensors", session_.peer.rank,
      offers == 1 ? "was" : "were");
}

void SenderEnd::drop() {
  lost_offers_ = offers_.offers() + unmoved_.size();
  lost_ = lost_offers_ != 0;
  if (lost_)
    lost_row_.show({.operation = stats::Operation::rendezvous,
                    .peer = session_.peer.rank,
                    .code = session_.peer.state.load() == PeerState::failed ? Code::peer_failed
                                                                            : Code::peer_left,
                    .text = text_or_empty([&] {
                      return fmt::format("{}: {} offered and not fetched", session_.spec.name,
                                         lost_offers_);
                    })});
  (void)offers_.clear();
  unmoved_.clear();
}

}  // namespace weft::p2p::rendezvous
