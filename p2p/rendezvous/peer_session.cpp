// Opening a session, its turns, and the transport of its messages.
#include "p2p/rendezvous/peer_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::p2p::rendezvous {
namespace {

// Exceeds the number of messages pending or under way, so the ring never overwrites a message that
// a put still reads.
constexpr std::size_t kDrafts = detail::PutWriter::kMaxPending + PeerSession::kDepth + 2;
// Far more than a fabric takes to give up a put to a peer that does not answer.
constexpr std::chrono::seconds kLanding{20};
constexpr std::size_t kMostByControl = 4096;

SlotSpec inbox_spec(const RendezvousSpec& spec, const std::string& shared_name, int from) {
  return {.name = fmt::format("rdv.{}.{}", shared_name, from),
          .dtype = DType::u8,
          .shape = {static_cast<std::int64_t>(spec.message_bytes)},
          .depth = PeerSession::kDepth};
}

}  // namespace

PeerSession::PeerSession(LocalRank& local, Mesh& mesh, SlotTable& slots, Peer& peer,
                         const RendezvousSpec& spec, const std::string& shared_name, Totals& totals)
    : local_(local),
      mesh_(mesh),
      slots_(slots),
      peer_(peer),
      spec_(spec),
      shared_name_(shared_name),
      totals_(totals),
      drafts_(make_storage(local.data, kDrafts * spec.message_bytes)),
      drafts_chunk_(local.data->locate(drafts_->data(), drafts_->bytes())->chunk),
      offers_({spec.max_parked_bytes, spec.max_parked, spec.max_parked_requests}),
      words_(local.control, kGroups * kGroupBytes),
      requests_(words_.data(), kGroups) {
  for (std::size_t i = 0; i < kDrafts; ++i)
    draft_tensors_.emplace_back(drafts_, i * spec.message_bytes, DType::u8,
                                Shape{static_cast<std::int64_t>(spec.message_bytes)});
}

PeerSession::~PeerSession() {
  totals_.offered -= offered_counted_;
  totals_.attention -= attention_counted_;
  totals_.held_up -= held_up_counted_;
  // Puts are still under way only when the whole world is being destroyed.
  const auto completed = [this] {
    land();
    return under_way_.empty();
  };
  if (!local_.waiter.wait_alone(completed, kLanding))
    (void)new (std::nothrow) std::vector<UnderWay>(std::move(under_way_));  // leak: still read
  if (notification_id_) {
    // The words must outlive the channel's use of them.
    auto words = std::make_shared<OwnedBlock>(std::move(words_));
    local_.progress.post([&peer = peer_, notification_id = *notification_id_, words] {
      peer.channel->expect_no_more(notification_id);
    });
  }
  if (outbox_) slots_.detach(std::move(outbox_));
  if (inbox_) slots_.close(std::move(inbox_));
}

void PeerSession::expose() {
  // Notify::always: a rank that computes must still hear of a request.
  inbox_ = slots_.expose(inbox_spec(spec_, shared_name_, peer_.rank), {}, Notify::always);
}

Status PeerSession::share() noexcept {
  try {
    if (!mesh_.share(peer_, words_.block().chunk) || !mesh_.share(peer_, drafts_chunk_))
      return failure(Code::exhausted, "open", {},
                     fmt::format("this rank's memory can't be made accessible to rank {} (host {})",
                                 peer_.rank, peer_.host()),
                     "the log says why; raise ulimit -l to register more");
    notification_id_ = peer_.channel->expect(
        {.words = words_.data(), .count = kGroups * kGroupItems, .stride = sizeof(std::uint64_t)});
    return {};
  } catch (const Error& error) {
    return error.status();
  }
}

void PeerSession::attach(Deadline deadline) {
  outbox_ =
      slots_.attach(peer_.rank, inbox_spec(spec_, shared_name_, local_.rank), false, deadline);
  // The peer read what share() sent before it granted the attach, so it knows the chunk.
  known_chunks_.insert(drafts_chunk_);
}

void PeerSession::greet() noexcept {
  const SessionLock lock(*this);
  MessageWriter writer(draft(), RendezvousMessage::hello, 0, 0);
  const Block& block = words_.block();
  writer.add(Hello{.groups = kGroups,
                   .words = {block.chunk, block.offset, block.bytes},
                   .notification_id = *notification_id_});
  observe(RendezvousMessage::hello, true, {});
  open_.store(true);
  post(writer.finish());
  work();
}

PeerSession::SessionLock::SessionLock(PeerSession& session) noexcept : session_(session) {
  session_.mutex_.lock();
}

PeerSession::SessionLock::~SessionLock() {
  session_.settle();
  const bool changed = std::exchange(session_.changed_, false);
  session_.mutex_.unlock();
  if (changed) session_.local_.ring();
  if (session_.again_.exchange(false)) session_.try_turn();
}

void PeerSession::try_turn() noexcept {
  do {
    if (!mutex_.try_lock()) {
      // The thread that holds the session checks `again_` after unlocking. If it has checked
      // already, the lock is free.
      again_.store(true);
      if (!mutex_.try_lock()) return;
    }
    work();
    settle();
    const bool changed = std::exchange(changed_, false);
    mutex_.unlock();
    if (changed) local_.ring();
  } while (again_.exchange(false));
}

bool PeerSession::broken() const noexcept {
  return stopped_.load(std::memory_order_relaxed) || (outbox_ && outbox_->broken());
}

bool PeerSession::wants_turn() const noexcept {
  if (!open_.load(std::memory_order_acquire)) return false;
  if (needs_turn_.load()) return true;
  if (ended_.load(std::memory_order_relaxed)) return false;
  const auto* word = inbox_word_.load();
  return (word != nullptr && word->load() >= inbox_wanted_.load()) || broken();
}

void PeerSession::work() noexcept {
  if (!open_.load(std::memory_order_relaxed)) return;
  needs_turn_.store(false);
  land();
  if (ended_.load(std::memory_order_relaxed)) return;
  const bool is_broken = broken();
  if (!stopped_.load()) {
    flush();
    for (;;) {
      read_inbox();
      read_control();
      // Publish the next arrival for wants_turn(), then check it once more, so that no message is
      // missed.
      const auto [word, wanted] = inbox_->next_arrival();
      inbox_wanted_.store(wanted);
      inbox_word_.store(word);
      if (word->load() < wanted || stopped_.load()) break;
    }
    inbox_->before_wait();
  }
  if (is_broken) return end();
  if (cancelled_ != 0) reap();
}

void PeerSession::end() noexcept {
  ended_.store(true);
  lost_ = offers_.offers() + unmoved_.size() != 0;
  (void)offers_.clear();
  unmoved_.clear();
  unsent_.clear();
  puts_pending_ = false;
  // Release abandoned requests only if the peer can no longer write: not when this rank leaves or
  // when the peer was only declared dead.
  if (peer_.silent.load() || (!peer_.gone() && !stopped_.load())) {
    requests_.for_each_left_behind([this](Item& item) {
      if (item.done() && !item.cancelled) return;  // arrived before the end
      --left_behind_;
      requests_.release(item, false);
    });
    cancelled_ = 0;
  }
  changed_ = true;
}

void PeerSession::settle() noexcept {
  const auto flying = static_cast<std::int64_t>(under_way_.size());
  const auto offered = static_cast<std::int64_t>(offers_.offers() + unmoved_.size()) + flying;
  const bool held_up = puts_pending_ || !unsent_.empty() || !unmoved_.empty() || flying != 0;
  const auto attention = ended_.load() ? flying
                                       : offered + static_cast<std::int64_t>(left_behind_) +
                                             static_cast<std::int64_t>(held_up);
  if (offered != offered_counted_) totals_.offered += offered - offered_counted_;
  if (attention != attention_counted_) totals_.attention += attention - attention_counted_;
  offered_counted_ = offered;
  attention_counted_ = attention;
  if (held_up) needs_turn_.store(true);
  // Nothing rings the doorbell when a queue has room again, and a put's end does not always ring
  // it.
  const bool is_full = !ended_.load() && !(unmoved_.empty() && unsent_.empty());
  const std::int64_t refused = is_full || flying != 0 ? 1 : 0;
  if (refused != held_up_counted_) totals_.held_up += refused - held_up_counted_;
  held_up_counted_ = refused;
  if (refused != 0) local_.progress.turn_soon();
}

std::span<std::byte> PeerSession::draft() noexcept {
  return {draft_tensors_[next_draft_].data(), spec_.message_bytes};
}

bool PeerSession::put_message(const Tensor& message) noexcept {
  using Crowded = detail::PutWriter::Crowded;
  weft::Request put = outbox_->put(message, Until::reusable, Crowded::refuse);
  if (put.test()) return put.wait().code() != Code::exhausted;
  puts_pending_ = outbox_->move_pending();
  return true;
}

void PeerSession::post(std::span<const std::byte> message) noexcept {
  sent_.control_messages.add(1);
  if (!unsent_.empty() || !put_message(draft_tensors_[next_draft_])) {
    unsent_.emplace_back(message.begin(), message.end());
    return;
  }
  next_draft_ = (next_draft_ + 1) % kDrafts;
}

void PeerSession::flush() noexcept {
  if (puts_pending_) puts_pending_ = outbox_->move_pending();
  while (!unsent_.empty()) {
    std::ranges::copy(unsent_.front(), draft().begin());
    if (!put_message(draft_tensors_[next_draft_])) return;
    next_draft_ = (next_draft_ + 1) % kDrafts;
    unsent_.pop_front();
  }
  for (std::size_t i = unmoved_.size(); i-- > 0;) {
    Match match = std::move(unmoved_.front());
    unmoved_.pop_front();
    move(std::move(match));
  }
}

void PeerSession::post_by_control(std::span<const std::byte> message,
                                  std::uint32_t chunk) noexcept {
  sent_.control_messages.add(1);
  auto on_control = std::make_shared<RendezvousOnControl>();
  on_control->name.set(shared_name_);
  std::ranges::copy(message, on_control->bytes.begin());
  local_.progress.post([&mesh = mesh_, &peer = peer_, chunk, on_control] {
    mesh.share(peer, chunk);
    mesh.send(peer, *on_control);
  });
}

void PeerSession::on_control(std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(control_mutex_);
    if (by_control_.size() >= kMostByControl) return;
    by_control_.emplace_back(bytes.begin(), bytes.end());
  }
  needs_turn_.store(true);
  local_.ring();
}

void PeerSession::read_inbox() noexcept {
  std::array<std::byte, kMaxRendezvousMessage> copy;
  while (inbox_->ready()) {
    auto arrival = inbox_->wait(Deadline::at({}));
    if (!arrival.ok()) {
      // Reached only if the peer violates the protocol; nothing more is read from it.
      complain("a message out of turn");
      stopped_.store(true);
      return;
    }
    // Copy before checking: the writer can still change the message.
    std::memcpy(copy.data(), arrival->tensor().data(), spec_.message_bytes);
    arrival->release();
    handle(std::span(copy).first(spec_.message_bytes));
  }
}

void PeerSession::read_control() noexcept {
  if (sides_.empty()) return;  // messages before the peer's hello are kept
  std::deque<std::vector<std::byte>> messages;
  {
    const std::lock_guard lock(control_mutex_);
    if (by_control_.empty()) return;
    messages.swap(by_control_);
  }
  for (const auto& message : messages) handle(message);
}

void PeerSession::handle(std::span<const std::byte> bytes) noexcept {
  received_.control_messages.add(1);
  MessageReader reader(bytes);
  const auto id = [&](std::uint32_t item) {
    return RequestId{reader.group(), reader.generation(), item};
  };
  if (reader.valid() && (reader.type() == RendezvousMessage::hello) != sides_.empty())
    return complain("a message before its hello, or a second hello");
  switch (reader.type()) {
    case RendezvousMessage::tensor_request:
      while (const auto ask = reader.ask()) on_ask(id(ask->item), *ask);
      break;
    case RendezvousMessage::meta_data_response:
      while (const auto answer = reader.metadata()) on_metadata(id(answer->item), *answer);
      break;
    case RendezvousMessage::tensor_re_request:
      while (const auto ask = reader.ask_again()) on_ask_again(id(ask->item), *ask);
      break;
    case RendezvousMessage::error_status:
      while (const auto error = reader.error()) on_error(id(error->item), *error);
      break;
    case RendezvousMessage::cancel:
      while (const auto cancel = reader.cancel()) on_cancel(id(cancel->item));
      break;
    case RendezvousMessage::hello:
      while (const auto hello = reader.hello()) on_hello(*hello);
      break;
    case RendezvousMessage::tensor:
      break;
  }
  if (!reader.valid()) complain("a malformed message");
}

void PeerSession::on_hello(const Hello& hello) noexcept {
  observe(RendezvousMessage::hello, false, {});
  const auto words = peer_.channel->resolve(hello.words);
  if (!words.ok() || sort_of_chunk(hello.words.chunk) != ArenaSort::control ||
      hello.words.offset % sizeof(std::uint64_t) != 0)
    return complain("completion words that are not mapped here");
  words_there_ = *words;
  remote_notification_id_ = hello.notification_id;
  sides_.resize(hello.groups);
  met_.store(true, std::memory_order_release);
  changed_ = true;
  needs_turn_.store(true);  // control messages may have waited for the hello
}

void PeerSession::complain(const char* what) noexcept {
  if (std::exchange(complained_, true)) return;
  local_.log->warn(Subsystem::slot, "rendezvous {}: rank {} sent {}: ignored", spec_.name,
                   peer_.rank, what);
}

void PeerSession::observe(RendezvousMessage message, bool sent, const KeyStep& at, bool by_name,
                          bool with_metadata) const {
  if (!spec_.observer) return;
  spec_.observer({message, sent, peer_.rank, at.key, at.step, by_name, with_metadata});
}

Status PeerSession::usable(const char* operation, const KeyStep& at) const {
  if (!broken()) return {};
  Status peer_status = mesh_.peer_status(peer_.rank);
  ErrorDetail detail;
  if (!peer_status.ok()) {
    detail = peer_status.detail();
  } else {
    detail.code = Code::closed;
    detail.message = stopped_.load()
                         ? "this rank is leaving the job"
                         : fmt::format("rank {} (host {}) has closed its end of the rendezvous",
                                       peer_.rank, peer_.host());
    detail.peer = peer_.rank;
    detail.host = peer_.host();
    detail.hint = mesh_.likely_cause();
  }
  detail.operation = operation;
  detail.rank = local_.rank;
  if (!at.key.empty())
    detail.message = fmt::format("{} (key \"{}\", step {})", detail.message, at.key, at.step);
  return Status(std::move(detail));
}

Status PeerSession::failure(Code code, const char* operation, const KeyStep& at,
                            std::string message, std::string hint) const {
  return Status(
      ErrorDetail{.code = code,
                  .operation = operation,
                  .message = fmt::format("key \"{}\", step {}: {}", at.key, at.step, message),
                  .hint = std::move(hint),
                  .rank = local_.rank,
                  .peer = peer_.rank,
                  .host = peer_.host()});
}

void PeerSession::report(std::vector<EdgeReport>& edges) const {
  const auto add = [&](const EdgeCounters& counters, Role role) {
    EdgeReport edge;
    edge.peer = peer_.rank;
    edge.slot = "rendezvous." + spec_.name;
    edge.role = role;
    edge.fabric = peer_.channel ? std::string(p2p::name(peer_.channel->fabric())) : "";
    edge.counters = counters.read();
    if (edge.counters.transfers + edge.counters.control_messages != 0)
      edges.push_back(std::move(edge));
  };
  add(sent_, Role::puts);
  add(received_, Role::receives);
}

}  // namespace weft::p2p::rendezvous
