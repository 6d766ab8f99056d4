#include "p2p/transport/verbs/verbs_channel.hpp"
#include "base/fail.hpp"
#include "p2p/transport/ending.hpp"
#include "p2p/transport/verbs/device/failures.hpp"
#include "p2p/transport/verbs/revival.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::p2p::verbs {
namespace {

constexpr std::size_t kShortMessage = 64;  ///< stands for an immediate

/// As many as both ends ask for. Leaves out links that would have none.
std::size_t pairs_per_link(const VerbsOptions& options, std::vector<Link>& links) {
  constexpr auto kMost = static_cast<std::size_t>(NotificationTable::kMaxQueuePairs);
  const auto pairs = static_cast<std::size_t>(
      std::clamp<int>(options.queue_pairs, 1, links.front().peer.queue_pairs));
  links.resize(std::min(links.size(), std::max<std::size_t>(kMost / pairs, 1)));
  return pairs;
}

}  // namespace

VerbsChannel::VerbsChannel(VerbsRank& rank, int peer, std::vector<Link> links)
    : Channel(FabricKind::verbs, rank.local.stats->path(peer).counters, &expected_),
      rank_(rank),
      peer_(peer),
      links_(std::move(links)),
      per_link_(pairs_per_link(rank.rails.options(), links_)),
      several_(links_.size() > 1),
      expected_({.most = Immediate::kMaxIndex + 1,
                 .queue_pairs = static_cast<int>(per_link_ * links_.size()),
                 // The holder of the completion queue's lock sets the words.
                 .one_at_a_time = per_link_ * links_.size() == 1}) {
  capabilities_.words_take_requests = true;
  capabilities_.peer_reaches_adopted = true;
  capabilities_.queue_pairs = 0;  // until they are made
}

void VerbsChannel::make_queue_pairs() {
  outbox_.send_buffers = OwnedBlock(rank_.local.staging, outbox_.send_ends.size() * kSendBuffer);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto buffers = links_[i].rail->regions->local_key(outbox_.send_buffers.data(),
                                                            outbox_.send_buffers.block().bytes);
    if (!buffers.ok()) throw Error(buffers.status());
    outbox_.send_keys.at(i) = *buffers;
  }
  for (std::size_t i = 0; i < per_link_ * links_.size(); ++i) {
    Rail& rail = *link_of(i).rail;
    pairs_.push_back(std::make_unique<QueuePair>(
        *rail.device, rank_.local, *rail.regions, *rail.completions, *this,
        QueuePair::Options{.peer = peer_,
                           .index = static_cast<int>(i),
                           .receive_bytes = i % per_link_ == 0 ? kSendBuffer : kShortMessage,
                           .depth = rail.completions->depth(),
                           .recoverable = several_}));
  }
  const NotifyMode asked = rank_.rails.options().notify_mode;
  immediates_ =
      !near().device->is_iwarp() && links_.front().peer.iwarp == 0 && asked != NotifyMode::send;
  if (asked != NotifyMode::automatic && (immediates_ || asked == NotifyMode::tail))
    notify_mode_ = asked;
  else if (pairs_.front()->data_in_order() && !several_)  // a lost link's tails can't be counted
    notify_mode_ = NotifyMode::tail;
  else
    notify_mode_ = immediates_ ? NotifyMode::immediate : NotifyMode::send;
  stripes_.make_places(near().completions->depth());
  const std::lock_guard lock(outbox_.mutex);
  if (several_) prepare_failover();
  capabilities_.queue_pairs = static_cast<int>(per_link_);
  capabilities_.tails_up_to = most_with_tail();
}

std::uint64_t registered_bytes_of(std::uint64_t queue_pairs, std::uint64_t links,
                                  std::uint64_t depth) noexcept {
  const std::uint64_t words = (1 + depth) * sizeof(std::uint64_t);
  const std::uint64_t short_receives = QueuePair::kReceives * kShortMessage;
  return kSendBuffers * kSendBuffer + links * (QueuePair::kReceives * kSendBuffer) +
         (queue_pairs - links) * short_receives + queue_pairs * words;
}

VerbsChannel::~VerbsChannel() {
  // First all of them: one's completions may lead to another.
  for (const auto& pair : pairs_) pair->retire();
}

QueuePairsMessage VerbsChannel::queue_pair_address() const {
  QueuePairsMessage message;
  message.count = static_cast<std::uint32_t>(pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) message.pairs[i] = pairs_[i]->address();
  return message;
}

void VerbsChannel::set_peer(const QueuePairsMessage& peer) {
  if (peer.count != pairs_.size())
    throw Error(ErrorDetail{
        .code = Code::mismatch,
        .operation = "connect",
        .message = fmt::format("rank {} has {} queue pairs for this rank, this rank {} for it",
                               peer_, peer.count, pairs_.size()),
        .hint = "give every rank the same WEFT_QPS_PER_PEER",
        .peer = peer_});
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i]->set_peer(peer.pairs[i]);
}

void VerbsChannel::connect() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i]->connect(link_of(i).peer);
}

void VerbsChannel::mark_connected() noexcept {
  for (const auto& pair : pairs_) pair->mark_connected();
}

std::vector<ibv_qp*> VerbsChannel::handles() const {
  std::vector<ibv_qp*> all;
  for (const auto& pair : pairs_) all.push_back(pair->get());
  return all;
}

void VerbsChannel::open() noexcept {
  // A failure may have come first, and stays.
  (void)end_.unless_decided([this] { state_.store(State::open, std::memory_order_release); });
  flush();
}

std::string VerbsChannel::notify_mode_text() const {
  const bool forced = rank_.rails.options().notify_mode == notify_mode_;
  const char* why = forced ? ", as WEFT_NOTIFY asks" : "";
  switch (notify_mode_) {
    case NotifyMode::tail:
      return fmt::format("tail word in the same WRITE where a slot has room for it{}, else {}",
                         forced ? why : ": data arrives in order",
                         immediates_ ? "one WRITE_WITH_IMM a put" : "WRITE, then SEND");
    case NotifyMode::counted:
      return fmt::format("WRITEs and one empty immediate by each queue pair, counted{}", why);
    case NotifyMode::send:
      return fmt::format("WRITE, then SEND{}", forced ? why : ": no immediates on iWARP");
    case NotifyMode::automatic:
    case NotifyMode::immediate:
      break;
  }
  return fmt::format("one WRITE_WITH_IMM a put{}", why);
}

std::string VerbsChannel::text() const {
  std::string ports;
  for (const Link& link : links_)
    ports += fmt::format("{}{} to {}", ports.empty() ? "" : ", ", link.rail->device->name(),
                         link.peer.device.data());
  return ports + "; " + notify_mode_text();
}

bool VerbsChannel::uses(const Rail& rail) const noexcept {
  return std::ranges::any_of(links_, [&](const Link& link) { return link.rail == &rail; });
}

bool VerbsChannel::export_region(std::uint32_t chunk) {
  if (shared_.contains(chunk)) return true;
  const auto region = near().regions->of_chunk(chunk);
  if (!region.ok()) {
    rank_.local.log->error(Subsystem::path, "{}", region.status().text());
    return false;
  }
  shared_.insert(chunk);
  rank_.local.recorder.control(stats::Event::chunk_shared, peer_, 0, chunk);
  RegisteredMessage message{.chunk = chunk,
                            .address = reinterpret_cast<std::uint64_t>(region->data),
                            .bytes = region->bytes,
                            .remote_key = region->remote_key};
  message.has_far_keys = far_keys_of(chunk, message.far_keys) ? 1 : 0;
  send(as_bytes(message));
  return true;
}

void VerbsChannel::unshare(std::uint32_t chunk) {
  if (shared_.erase(chunk) != 0) send(as_bytes(GivenBackMessage{.chunk = chunk}));
}

bool VerbsChannel::handle(std::span<const std::byte> message) {
  if (const auto chunk = parse<RegisteredMessage>(message);
      chunk && chunk->type == MessageType::registered) {
    if (chunk->has_far_keys != 0) far_keys_.add(chunk->chunk, chunk->remote_key, chunk->far_keys);
    chunks_.add(chunk->chunk, {chunk->address, chunk->remote_key}, chunk->bytes);
    counters().registrations.add(1);
    rank_.local.recorder.control(stats::Event::chunk_mapped, peer_, 0, chunk->chunk);
    rank_.local.ring();  // a thread may wait for just this chunk
    return true;
  }
  if (const auto gone = parse<GivenBackMessage>(message);
      gone && gone->type == MessageType::given_back) {
    chunks_.remove(gone->chunk);
    far_keys_.remove(gone->chunk);
    return true;
  }
  return false;
}

void VerbsChannel::fail(Status why) noexcept {
  if (!end_.decide(std::move(why))) return;
  for (const auto& pair : pairs_) pair->to_error();
  state_.store(State::failed, std::memory_order_release);
  // Lost requests, which are perhaps on their way by another link, end once both are drained.
  for (std::size_t i = 0; several_ && i < pairs_.size(); ++i)
    if (!is_unresolved(i / per_link_)) Revival(*pairs_[i]).abandon();
  rank_.local.ring();
}

void VerbsChannel::failed(int queue_pair, const ibv_wc& completion) noexcept {
  if (is_lost_by(queue_pair, completion)) return;
  // The first one says what happened; the rest are flushed because of it.
  const bool refusal = is_refusal(completion.status);
  bool is_first = false;
  (void)end_.unless_decided([&] { is_first = !std::exchange(refused_, refused_ || refusal); });
  if (!is_first) return;
  Status why(ErrorDetail{.code = Code::path_failed, .peer = peer_});
  try {
    why = failure_of(completion, *link_of(static_cast<std::size_t>(queue_pair)).rail->device, peer_,
                     queue_pair);
  } catch (const std::bad_alloc&) {
    // Then without words.
  }
  if (refusal) {
    for (const auto& pair : pairs_) pair->to_error();
    return rank_.path_refused(peer_, why);
  }
  fail(std::move(why));
  rank_.path_failed(peer_, broken("path"));
}

// Sending messages and words: at once, or when there is room.

void VerbsChannel::send(std::span<const std::byte> message) {
  counters().control_messages.add(1);
  if (is_close(message) && rank_.first_use.send_at_once(peer_, message)) return;
  {
    const std::lock_guard lock(outbox_.mutex);
    if (!outbox_.waits.load() && post_message(message)) return;
    outbox_.messages.emplace_back(message.begin(), message.end());
    outbox_.waits.store(true);
  }
  if (state_.load() == State::unopened)
    rank_.first_use.request(peer_);
  else
    rank_.rails.schedule_poll();
}

void VerbsChannel::put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept {
  const std::lock_guard lock(outbox_.mutex);
  const bool rings = notify != Notify::optional;
  if (!outbox_.waits.load() && post_word({word, value, rings})) return;
  const auto same = std::find_if(outbox_.words.begin(), outbox_.words.end(), [&](const Word& w) {
    return w.place.address == word.address && w.place.key == word.key;
  });
  try {
    if (same == outbox_.words.end())
      outbox_.words.push_back({word, value, rings});
    else
      *same = {word, value, rings || same->rings};
  } catch (const std::bad_alloc&) {
    return out_of_memory("a word that it is to get");
  }
  outbox_.waits.store(true);
  rank_.rails.schedule_poll();
}

void VerbsChannel::notify() noexcept {
  const std::lock_guard lock(outbox_.mutex);
  if (has_failed()) return;
  if (!outbox_.waits.load() && is_open() && post_ack()) return;
  outbox_.ack = true;
  outbox_.waits.store(true);
  rank_.rails.schedule_poll();
}

void VerbsChannel::on_room() noexcept {
  kept_.release([this](std::uint64_t posted) { return has_ended(posted); });
  flush();
}

void VerbsChannel::flush() noexcept {
  for (const auto& pair : pairs_) pair->retry_request();
  if (!outbox_.waits.load(std::memory_order_acquire) &&
      long_puts_.count.load(std::memory_order_acquire) == 0 &&
      !failover_.is_busy.load(std::memory_order_acquire))
    return;
  const std::lock_guard lock(outbox_.mutex);
  if (state_.load() == State::unopened) return;
  go_on_with_long_puts();
  go_on_with_links();
  if (has_failed()) {
    outbox_.words.clear();
    outbox_.messages.clear();
    outbox_.ack = false;
  }
  while (!outbox_.words.empty() && post_word(outbox_.words.front())) outbox_.words.pop_front();
  if (outbox_.words.empty())
    while (!outbox_.messages.empty() && post_message(outbox_.messages.front()))
      outbox_.messages.pop_front();
  if (outbox_.ack) outbox_.ack = !post_ack();
  outbox_.waits.store(outbox_.ack || !outbox_.words.empty() || !outbox_.messages.empty());
  if (outbox_.waits.load()) rank_.rails.schedule_poll();
}

void VerbsChannel::kick() noexcept {
  if (!is_open()) return;
  for (const auto& pair : pairs_) pair->kick();
  tend_links();
}

bool VerbsChannel::is_idle() noexcept {
  if (!is_open()) return true;
  flush();
  if (outbox_.waits.load() || long_puts_.count.load() != 0) return false;
  bool idle = true;
  for (const auto& pair : pairs_) {
    if (pair->has_ended(pair->posted())) continue;
    pair->ask_for_completion();
    idle = false;
  }
  return idle;
}

/// Nothing that the peer may count on is dropped: the path ends.
void VerbsChannel::out_of_memory(const char* what) noexcept {
  fail(refuse(Code::path_failed, [&] {
    return ErrorDetail{.operation = "path",
                       .message = fmt::format("no memory for {}", what),
                       .hint = "this rank has run out of memory",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
}

void VerbsChannel::take_messages(const std::function<void(std::span<const std::byte>)>& take) {
  tend_links();
  // Puts that were sent before the message may still be on their way by another queue pair.
  const auto has_come = [this](const MessageHead& head) {
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      if (pairs_[i]->notifications_seen() < head.notified[i]) return false;
    return true;
  };
  // Only those that are there now: a peer that never stops must not keep the progress thread here.
  for (std::size_t most = inbox_.size(); most > 0; --most) {
    std::vector<std::byte> message;
    const MessageInbox::Turn turn = inbox_.take_first(message, has_come);
    if (turn == MessageInbox::Turn::not_yet) rank_.rails.schedule_poll();
    if (turn != MessageInbox::Turn::taken) return;
    if (!handle(message)) take(message);
  }
}

}  // namespace weft::p2p::verbs
