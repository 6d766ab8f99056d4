#include "p2p/transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "p2p/transport/verbs/message_head.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::uint32_t kWantedInline = 128;
constexpr std::uint32_t kWantedPieces = 16;
constexpr std::uint32_t kRepostEvery = QueuePair::kReceives / 4;
/// Of receives that the peer does not know of: a report goes along with the next post, or alone.
/// The peer has the rest meanwhile, so that it need not wait for one.
constexpr std::uint32_t kReportAlong = QueuePair::kReceives * 3 / 8;
constexpr std::uint32_t kReportAlone = QueuePair::kReceives / 2;

std::atomic<std::uint64_t>& word_at(std::byte* place) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(place);
}

}  // namespace

QueuePair::QueuePair(Device& device, LocalRank& local, Regions& regions, Completions& completions,
                     QueuePairEvents& events, Options options)
    : device_(device),
      completions_(completions),
      events_(events),
      options_(options),
      words_(local.control, (1 + std::size_t{options.depth}) * sizeof(std::uint64_t)),
      messages_(local.staging, std::size_t{kReceives} * options.receive_bytes) {
  const auto words = regions.of_chunk(words_.block().chunk);
  const auto messages = regions.local_key(messages_.data(), messages_.block().bytes);
  if (!words.ok()) throw Error(words.status());
  if (!messages.ok()) throw Error(messages.status());
  words_key_ = words->local_key;
  receives_.key = *messages;
  for (std::uint32_t i = 0; i <= options_.depth; ++i)
    new (words_.data() + i * sizeof(std::uint64_t)) std::atomic<std::uint64_t>(0);

  const std::size_t queue = completions_.choose();
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = completions_.queue(queue);
  wanted.cap.max_send_wr = options_.depth;
  wanted.cap.max_recv_wr = kReceives;
  wanted.cap.max_send_sge = std::min(kWantedPieces, device_.limits().max_pieces);
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kWantedInline;
  Verbs& verbs = device_.verbs();
  ibv_qp_init_attr asked = wanted;
  ibv_qp* made = verbs.create_qp(device_.domain(), &asked);
  if (made == nullptr && errno == EINVAL) {  // a device without inline data may refuse to be asked
    asked = wanted;
    asked.cap.max_inline_data = 0;
    made = verbs.create_qp(device_.domain(), &asked);
  }
  if (made == nullptr)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "connect",
        .message = fmt::format("{}: ibv_create_qp for {}: {}", device_.name(), name(),
                               std::strerror(errno)),
        .hint = fmt::format("the device has at most {} queue pairs; a smaller WEFT_QUEUE_DEPTH "
                            "needs less memory",
                            device_.limits().max_queue_pairs),
        .peer = options_.peer});
  handle_ = QueuePairHandle(verbs, made);
  limits_.max_inline = asked.cap.max_inline_data;
  limits_.max_pieces = asked.cap.max_send_sge;
  limits_.max_message = device_.limits().max_message;
  limits_.max_chain = options_.depth / 2;
  device_.to_init(made);
  for (receives_.used_count = 0; receives_.used_count < kReceives; ++receives_.used_count)
    receives_.used[receives_.used_count] = receives_.used_count;
  if (const int error = post_receives())
    throw Error(ErrorDetail{.code = Code::system,
                            .operation = "connect",
                            .message = fmt::format("{}: ibv_post_recv for {}: {}", device_.name(),
                                                   name(), std::strerror(error)),
                            .peer = options_.peer});
  receives_.posted = 0;  // the peer knows of these
  receives_.reported = kReceives;
  address_.number = made->qp_num;
  address_.first_psn = randombytes_uniform(1U << 24U);
  address_.receives = {reinterpret_cast<std::uint64_t>(words_.data()), words->remote_key};
  recovery_.queue = queue;
  completions_.bind(queue, *this);
}

QueuePair::~QueuePair() { retire(); }

void QueuePair::retire() noexcept {
  if (!handle_) return;
  to_error();
  completions_.unbind(*this);
}

std::string QueuePair::name() const {
  return fmt::format("rank {} #{}", options_.peer, options_.index);
}

void QueuePair::connect(const VerbsAddress& port) {
  device_.to_ready(handle_.get(), port, peer_.number, peer_.first_psn, address_.first_psn);
  mark_connected();
}

bool QueuePair::data_in_order() const noexcept {
  return device_.verbs().data_in_order(handle_.get(), IBV_WR_RDMA_WRITE);
}

void QueuePair::to_error() noexcept { device_.to_error(handle_.get()); }

std::uint64_t QueuePair::receives_reported() const noexcept {
  return word_at(words_.data()).load(std::memory_order_acquire);
}

void QueuePair::believe_reported(std::uint64_t count) noexcept {
  word_at(words_.data()).store(count, std::memory_order_release);
}

std::pair<std::uint64_t*, std::uint32_t> QueuePair::next_word(std::uint32_t requests) noexcept {
  const std::uint64_t request = posted_.load(std::memory_order_relaxed) + requests;
  std::byte* place = words_.data() + (1 + request % options_.depth) * sizeof(std::uint64_t);
  return {reinterpret_cast<std::uint64_t*>(place), words_key_};
}

[[gnu::always_inline]] inline bool QueuePair::takes_report(std::uint32_t requests) const noexcept {
  if (receives_unreported() < kReportAlong) return false;
  const std::uint64_t under_way =
      posted_.load(std::memory_order_relaxed) - ended_.load(std::memory_order_acquire);
  return under_way + requests + kReserve < options_.depth;
}

int QueuePair::post(ibv_send_wr* chain, std::uint32_t requests, std::uint32_t notifications,
                    bool lent) noexcept {
  const std::uint64_t before = posted_.load(std::memory_order_relaxed);
  std::uint64_t request = before;
  ibv_send_wr* last = chain;
  for (ibv_send_wr* work = chain; work != nullptr; work = work->next) {
    work->wr_id = ++request;
    last = work;
  }
  Report report;
  ibv_send_wr* const callers_last = last;
  const bool reports = takes_report(requests);
  if (reports) [[unlikely]] {
    make_report(report, ++requests);
    report.work.wr_id = ++request;
    last->next = &report.work;
    last = &report.work;
  }
  // One completion under way is enough to find out how far the queue has got.
  const bool none_asked = signaled_ <= ended_.load(std::memory_order_relaxed);
  const bool signal = (lent && none_asked) || request - signaled_ >= signal_every();
  if (signal) last->send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = device_.verbs().post_send(handle_.get(), chain, &bad);
  callers_last->next = nullptr;
  if (error != 0) {
    if (bad == nullptr || bad == chain) return error;
    // Part of it went out: the rest can't be taken back, so the path is given up.
    posted_.store(bad->wr_id - 1, std::memory_order_release);
    to_error();
    return EIO;
  }
  posted_.store(before + requests, std::memory_order_release);
  if (reports) [[unlikely]]
    receives_.reported.store(report.count + kReceives, std::memory_order_relaxed);
  if (signal) signaled_ = request;
  if (lent) lent_.store(request, std::memory_order_relaxed);
  // No other thread writes it: no need for an atomic addition.
  if (notifications != 0)
    notified_.store(notified_.load(std::memory_order_relaxed) + notifications,
                    std::memory_order_release);
  return 0;
}

void QueuePair::ask_for_completion() noexcept {
  const std::lock_guard lock(mutex_);
  unasked_.store(false, std::memory_order_relaxed);
  if (!connected_.load(std::memory_order_relaxed)) return;
  const std::uint64_t last = posted_.load(std::memory_order_relaxed);
  if (signaled_ >= last || ended_.load(std::memory_order_acquire) >= last) return;
  if (signaled_ > ended_.load(std::memory_order_relaxed)) return;  // asked again when that has come
  if (post_nothing() == ENOMEM) {
    unasked_.store(true, std::memory_order_relaxed);
    completions_.schedule_poll();
  }
}

int QueuePair::post_nothing() noexcept {
  const std::uint64_t last = posted_.load(std::memory_order_relaxed);
  if (last - ended_.load(std::memory_order_acquire) + 1 > options_.depth) return ENOBUFS;
  ibv_send_wr nothing{};
  nothing.wr_id = last + 1;
  nothing.opcode = IBV_WR_RDMA_WRITE;
  nothing.send_flags = IBV_SEND_SIGNALED;
  nothing.wr.rdma.remote_addr = peer_.receives.address;
  nothing.wr.rdma.rkey = peer_.receives.key;
  ibv_send_wr* bad = nullptr;
  const int error = device_.verbs().post_send(handle_.get(), &nothing, &bad);
  if (error != 0) return error;
  posted_.store(last + 1, std::memory_order_release);
  signaled_ = last + 1;
  return 0;
}

void QueuePair::kick() noexcept {
  const std::lock_guard lock(mutex_);
  if (!connected_.load(std::memory_order_acquire)) return;
  const std::uint64_t ended = ended_.load(std::memory_order_acquire);
  const bool is_stuck = ended == std::exchange(at_kick_.ended, ended) && ended < at_kick_.posted;
  if (is_stuck) (void)post_nothing();
  at_kick_.posted = posted_.load(std::memory_order_relaxed);
}

int QueuePair::post_receives() noexcept {
  std::array<ibv_sge, kReceives> places;
  std::array<ibv_recv_wr, kReceives> receives;
  for (std::uint32_t i = 0; i < receives_.used_count; ++i) {
    places[i] = {reinterpret_cast<std::uint64_t>(messages_.data() +
                                                 receives_.used[i] * options_.receive_bytes),
                 static_cast<std::uint32_t>(options_.receive_bytes), receives_.key};
    receives[i] = {.wr_id = kIsReceive | receives_.used[i],
                   .next = i + 1 < receives_.used_count ? &receives[i + 1] : nullptr,
                   .sg_list = &places[i],
                   .num_sge = 1};
  }
  receives_.count_out(static_cast<int>(receives_.used_count));
  ibv_recv_wr* bad = nullptr;
  const int error = device_.verbs().post_recv(handle_.get(), receives.data(), &bad);
  if (error != 0) return error;
  receives_.posted.store(receives_.posted.load(std::memory_order_relaxed) + receives_.used_count,
                         std::memory_order_release);
  receives_.used_count = 0;
  return 0;
}

[[gnu::always_inline]] inline void QueuePair::received(const ibv_wc& completion) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kIsReceive);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    events_.notified(options_.index, ntohl(completion.imm_data));
  } else {
    const std::span<const std::byte> bytes(messages_.data() + slot * options_.receive_bytes,
                                           completion.byte_len);
    if (const auto immediate = MessageHead::immediate_in(bytes))
      events_.notified(options_.index, *immediate);
    else
      events_.message(options_.index, bytes);
  }
  receives_.seen.store(receives_.seen.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
  receives_.used[receives_.used_count++] = slot;
  receives_.count_out(-1);
}

void QueuePair::completed(const ibv_wc& completion) noexcept {
  const bool is_receive = (completion.wr_id & kIsReceive) != 0;
  if (completion.status == IBV_WC_SUCCESS) {
    if (is_receive) return received(completion);
    succeeded_.store(completion.wr_id, std::memory_order_release);
    ended_.store(completion.wr_id, std::memory_order_release);
    sends_ended_ = true;
    return;
  }
  if (is_receive)
    receives_.count_out(-1);
  else
    flushed(completion.wr_id);
  sends_ended_ = true;
  events_.failed(options_.index, completion);
}

void QueuePair::flushed(std::uint64_t request) noexcept {
  if (!options_.recoverable) return ended_.store(request, std::memory_order_release);
  recovery_.flushed.store(request);
  if (recovery_.is_abandoned.load()) raise_ended(request);
}

void QueuePair::raise_ended(std::uint64_t request) noexcept {
  std::uint64_t ended = ended_.load();
  while (ended < request && !ended_.compare_exchange_weak(ended, request)) {
  }
}

void QueuePair::repost_receives() noexcept {
  if (receives_.used_count == 0) return;
  // Once it is drained nothing may be posted.
  if (options_.recoverable && !connected_.load(std::memory_order_acquire)) return;
  if (post_receives() != 0) {
    receives_.used_count = 0;
    to_error();  // the flush tells the channel
    return;
  }
  if (receives_unreported() >= kReportAlone) report_receives();
}

bool QueuePair::on_batch_done() noexcept {
  if (receives_.used_count >= kRepostEvery)
    repost_receives();
  else if (receives_unreported() >= kReportAlone)  // there was no room for it before
    report_receives();
  if (std::exchange(sends_ended_, false)) {
    // Requests posted while a completion was under way end unseen, unless one more is asked for.
    bool unseen = false;
    {
      const std::lock_guard lock(mutex_);
      unseen = !has_ended(lent_);
    }
    if (unseen) ask_for_completion();
    events_.on_room();
  }
  return receives_.used_count != 0;
}

void QueuePair::make_report(Report& report, std::uint32_t requests) noexcept {
  report.count = receives_.posted.load(std::memory_order_acquire);
  const auto [word, key] = next_word(requests);
  *word = report.count;
  report.place = {reinterpret_cast<std::uint64_t>(word), sizeof *word, key};
  report.work = {};
  report.work.opcode = IBV_WR_RDMA_WRITE;
  report.work.sg_list = &report.place;
  report.work.num_sge = 1;
  if (limits_.max_inline >= sizeof *word) report.work.send_flags = IBV_SEND_INLINE;
  report.work.wr.rdma.remote_addr = peer_.receives.address;
  report.work.wr.rdma.rkey = peer_.receives.key;
}

void QueuePair::report_receives() noexcept {
  const std::lock_guard lock(mutex_);
  if (!connected_.load(std::memory_order_acquire)) return;
  if (receives_unreported() < kReportAlone) return;  // a post has taken it along
  const std::uint64_t under_way =
      posted_.load(std::memory_order_relaxed) - ended_.load(std::memory_order_acquire);
  if (under_way + 2 > options_.depth) return;  // tried again when something has ended
  Report report;
  make_report(report, 1);
  // Counted first, so that the post takes no other along.
  const std::uint64_t before = receives_.reported.exchange(report.count + kReceives);
  if (post(&report.work, 1, 0, false) != 0) receives_.reported = before;
}

}  // namespace weft::p2p::verbs
