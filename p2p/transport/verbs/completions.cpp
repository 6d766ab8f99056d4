#include "p2p/transport/verbs/completions.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>

#include "base/fail.hpp"
#include "base/os/thread_shortage.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr int kBatch = 32;
constexpr std::uint32_t kLeastDepth = 16;
/// Completions may make room for more that completes at once: the loop is bounded.
constexpr int kMostBatches = 16;

[[noreturn]] void fail(const char* what, const std::string& hint) {
  throw_error(Code::exhausted, "join", fmt::format("{}: {}", what, std::strerror(errno)), hint);
}

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Completions::Completions(Device& device, LocalRank& local, ProgressThread& progress, int peers)
    : device_(device),
      verbs_(device.verbs()),
      local_(local),
      progress_(progress),
      inline_(device.options().completion_queues == 0),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (timer_.get() < 0 || stop_.get() < 0)
    fail("making a completion queue", "raise the limit of open files (ulimit -n)");
  const auto queues = static_cast<std::uint64_t>(std::max(1, device.options().completion_queues));
  const auto pairs =
      static_cast<std::uint64_t>(peers) * static_cast<std::uint64_t>(device.options().queue_pairs);
  const std::uint64_t pairs_per_queue = (pairs + queues - 1) / queues;
  most_ = pairs_per_queue;
  // A queue pair that fails completes all that it holds, receives too: the queue must have room.
  const std::uint64_t room =
      device.limits().max_completions / std::max<std::uint64_t>(pairs_per_queue, 1);
  if (room < kLeastDepth + QueuePair::kReceives)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "join",
        .message =
            fmt::format("{}: {} queue pairs on a completion queue of at most {} leave {} for each",
                        device.name(), pairs_per_queue, device.limits().max_completions, room),
        .hint = "more queues (WEFT_CQS) or fewer queue pairs (WEFT_QPS_PER_PEER)"});
  depth_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      {device.options().depth, room - QueuePair::kReceives, device.limits().max_depth}));
  for (std::uint64_t i = 0; i < queues; ++i)
    make_queue(static_cast<int>(pairs_per_queue * (depth_ + QueuePair::kReceives)));
  if (inline_) {
    watch();
    return;
  }
  // Signals are the application's: its own threads take them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (const auto& queue : queues_)
      queue->thread = std::thread([this, &queue = *queue] { run(queue); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    stop();
    os::throw_thread_shortage("join", error);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  watch();
}

Completions::~Completions() { stop(); }

void Completions::make_queue(int depth) {
  auto queue = std::make_unique<Queue>();
  Verbs& verbs = device_.verbs();
  queue->events = CompletionEvents(verbs, verbs.create_comp_channel(device_.context()));
  if (!queue->events) fail("ibv_create_comp_channel", "raise the limit of open files (ulimit -n)");
  make_nonblocking(queue->events->fd);
  queue->cq =
      CompletionQueue(verbs, verbs.create_cq(device_.context(), depth, queue->events.get()));
  if (!queue->cq)
    fail(fmt::format("ibv_create_cq of {} entries on {}", depth, device_.name()).c_str(),
         "a smaller WEFT_QUEUE_DEPTH or fewer WEFT_QPS_PER_PEER");
  queue->depth = depth;
  queues_.push_back(std::move(queue));
}

void Completions::watch() {
  progress_.post([this] {
    progress_.watch(timer_.get(), EPOLLIN, [this](std::uint32_t) {
      std::uint64_t count = 0;
      (void)!::read(timer_.get(), &count, sizeof count);
      tick();
    });
    if (!inline_) return;
    Queue& queue = *queues_.front();
    progress_.watch(queue.events->fd, EPOLLIN, [this, &queue](std::uint32_t) {
      take_events(queue);
      tick();
    });
    arm(queue);
  });
}

void Completions::stop() noexcept {
  if (stopping_.exchange(true)) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  for (const auto& queue : queues_)
    if (queue->thread.joinable()) queue->thread.join();
}

std::size_t Completions::choose() {
  std::size_t best = 0;
  std::size_t fewest = ~std::size_t{0};
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const std::lock_guard lock(queues_[i]->mutex);
    if (queues_[i]->pairs.size() >= fewest) continue;
    best = i;
    fewest = queues_[i]->pairs.size();
  }
  if (fewest >= most_)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "connect",
        .message =
            fmt::format("{}: the completion queues were made for {} queue pairs, which there "
                        "are",
                        device_.name(), most_ * queues_.size()),
        .hint = "a larger WEFT_MESH_EAGER makes them for as many ranks"});
  return best;
}

void Completions::bind(std::size_t queue, QueuePair& pair) {
  const std::lock_guard lock(queues_[queue]->mutex);
  queues_[queue]->owing.reserve(queues_[queue]->pairs.size() + 1);
  queues_[queue]->pairs.emplace(pair.address().number, &pair);
}

void Completions::unbind(QueuePair& pair) noexcept {
  for (const auto& queue : queues_) {
    const std::lock_guard lock(queue->mutex);
    if (queue->last == &pair) queue->last = nullptr;
    std::erase(queue->owing, &pair);
    if (const auto found = queue->pairs.find(pair.address().number);
        found != queue->pairs.end() && found->second == &pair)
      queue->pairs.erase(found);
  }
}

std::string Completions::binding_table() const {
  std::string table;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const std::lock_guard lock(queues_[i]->mutex);
    std::vector<std::string> names;
    for (const auto& [number, pair] : queues_[i]->pairs) names.push_back(pair->name());
    std::sort(names.begin(), names.end());
    table += fmt::format("{}queue {}: {}", i == 0 ? "" : "; ", i, fmt::join(names, ", "));
  }
  return table;
}

QueuePair* Completions::pair_of(Queue& queue, std::uint32_t number) noexcept {
  if (queue.last != nullptr && queue.last->address().number == number) return queue.last;
  const auto found = queue.pairs.find(number);
  if (found == queue.pairs.end()) return nullptr;  // one that is gone
  return queue.last = found->second;
}

[[gnu::always_inline]] inline int Completions::poll(Queue& queue) noexcept {
  std::array<ibv_wc, kBatch> done;  // written by poll_cq as far as it says
  const int count = verbs_.poll_cq(queue.cq.get(), kBatch, done.data());
  if (count > 0) {
    handle(queue, {done.data(), static_cast<std::size_t>(count)});
    return count;
  }
  if (queue.owing.empty()) [[likely]]
    return count;
  // A thread that waits for what has come goes on with it before this is done.
  for (QueuePair* pair : queue.owing) pair->repost_receives();
  queue.owing.clear();
  return count;
}

// Flattened: each call less on the way of an arrival shows in the time of a small put.
[[gnu::flatten]] void Completions::handle(Queue& queue, std::span<const ibv_wc> done) noexcept {
  if (done.size() == 1) [[likely]] {
    QueuePair* const pair = pair_of(queue, done.front().qp_num);
    if (pair != nullptr) {
      pair->completed(done.front());
      end_batch(queue, *pair);
    }
    return local_.ring();
  }
  {
    const GpuRegions::Batch batch;
    for (const ibv_wc& wc : done)
      if (QueuePair* pair = pair_of(queue, wc.qp_num)) pair->completed(wc);
  }
  // Queue pairs are told once all completions were taken; most often it is one.
  QueuePair* batch_done = nullptr;
  for (const ibv_wc& wc : done) {
    if (batch_done != nullptr && batch_done->address().number == wc.qp_num) continue;
    batch_done = pair_of(queue, wc.qp_num);
    if (batch_done != nullptr) end_batch(queue, *batch_done);
  }
  local_.ring();
}

void Completions::end_batch(Queue& queue, QueuePair& pair) noexcept {
  if (pair.on_batch_done() && std::ranges::find(queue.owing, &pair) == queue.owing.end())
    queue.owing.push_back(&pair);
}

[[gnu::always_inline]] inline bool Completions::try_poll(Queue& queue) noexcept {
  if (queue.mutex.try_lock()) [[likely]] {
    const int count = poll(queue);
    queue.mutex.unlock();
    return count > 0;
  }
  // Another thread polls: the progress thread need not be woken for it.
  polled_.store(true, std::memory_order_relaxed);
  return false;
}

bool Completions::poll() noexcept {
  if (!inline_) return false;
  const bool came = try_poll(*queues_.front());
  if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
  return came;
}

void Completions::poll_once() noexcept {
  // A queue's thread may be late on a busy machine.
  for (const auto& queue : queues_) try_poll(*queue);
}

void Completions::catch_up() noexcept {
  for (const auto& queue : queues_)
    if (queue->mutex.try_lock()) [[likely]] {
      poll(*queue);
      queue->mutex.unlock();
    } else {
      // The other thread may have taken a completion off the queue and not have shown it yet.
      const std::lock_guard lock(queue->mutex);
    }
  if (inline_ && !polled_.load(std::memory_order_relaxed))
    polled_.store(true, std::memory_order_relaxed);
}

void Completions::help() noexcept {
  if (inline_)
    poll();
  else
    relax();
  sched_yield();
}

void Completions::drain() noexcept {
  for (const auto& queue : queues_) {
    const std::lock_guard lock(queue->mutex);
    for (int left = queue->depth; left > 0;) {
      const int count = poll(*queue);
      if (count <= 0) break;
      left -= count;
    }
  }
}

void Completions::arm() noexcept {
  if (inline_ && !arm(*queues_.front())) schedule_poll();
}

bool Completions::arm(Queue& queue) noexcept {
  if (queue.armed.exchange(true)) return true;
  device_.verbs().req_notify_cq(queue.cq.get());
  // Completions that arrived before arming raise no event, so poll once more.
  const std::lock_guard lock(queue.mutex);
  for (int i = 0; i < kMostBatches; ++i)
    if (poll(queue) <= 0) return true;
  return false;
}

void Completions::take_events(Queue& queue) noexcept {
  ibv_cq* cq = nullptr;
  unsigned count = 0;
  while (device_.verbs().get_cq_event(queue.events.get(), &cq) == 0) ++count;
  if (count == 0) return;
  device_.verbs().ack_cq_events(queue.cq.get(), count);
  queue.armed.store(false);
}

void Completions::schedule_poll() noexcept {
  if (!wanted_.exchange(true)) tick_after(kFirstTickNanoseconds);
}

void Completions::tick_after(long nanoseconds) noexcept {
  itimerspec then{};
  then.it_value.tv_nsec = nanoseconds;
  ::timerfd_settime(timer_.get(), 0, &then, nullptr);
}

void Completions::tick() noexcept {
  if (inline_)
    for (int i = 0; i < kMostBatches && try_poll(*queues_.front()); ++i) {
    }
  const bool was_wanted = wanted_.exchange(false);
  if (was_wanted && poll_) poll_();
  if (!inline_) return;
  // While a thread polls, an armed queue would wake this thread for each message.
  const bool was_polled = polled_.exchange(false);
  tick_ns_ = was_polled && !was_wanted ? std::min(2 * tick_ns_, kLongestTickNanoseconds)
                                       : kFirstTickNanoseconds;
  if (was_polled)
    tick_after(wanted_.load() ? kFirstTickNanoseconds : tick_ns_);
  else
    arm();
}

void Completions::run(Queue& queue) noexcept {
  pthread_setname_np(pthread_self(), "weft-cq");
  while (!stopping_.load()) {
    const auto spin = local_.waiter.policy().spin;
    const auto until = Clock::now() + spin;
    bool busy = false;
    do {
      busy = try_poll(queue) || busy;
      relax();
    } while (spin.count() > 0 && !stopping_.load() && Clock::now() < until);
    if (busy || !arm(queue)) continue;
    std::array<pollfd, 2> wait{{{queue.events->fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    ::poll(wait.data(), wait.size(), -1);
    take_events(queue);
  }
}

}  // namespace weft::p2p::verbs
