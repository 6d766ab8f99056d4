// The queue and its threads.
#include "runtime/dataflow/execute/step_runner.hpp"

#include <array>

#include "base/fail.hpp"
#include "runtime/world/services.hpp"

namespace weft::dataflow {
namespace {

/// True if the peer of a transfer that ended so is its cause.
bool is_of_peer(Code code) noexcept {
  switch (code) {
    case Code::timeout:
    case Code::peer_failed:
    case Code::peer_left:
    case Code::closed:
    case Code::unreachable:
    case Code::path_failed:
      return true;
    default:
      return false;
  }
}

}  // namespace

StepRunner::StepRunner(World& world, const Plan& plan, const std::vector<Instruction>& program,
                       TensorMemory& memory, Ends& ends, Neighbours& neighbours,
                       ExecutorStats& shown)
    : world_(world),
      plan_(plan),
      program_(program),
      memory_(memory),
      ends_(ends),
      neighbours_(neighbours),
      waits_(program.size()),
      users_(program.size()),
      values_(program.size()),
      activity_(plan.edges.size(), shown) {}

StepRunner::~StepRunner() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void StepRunner::start_threads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { serve(i + 1); });
}

ExecutorCounters StepRunner::counters() const {
  const std::lock_guard lock(mutex_);
  return activity_.counters();
}

Activity StepRunner::activity() const {
  const std::lock_guard lock(mutex_);
  return activity_;
}

bool StepRunner::has_failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.ok();
}

Result<Tensors> StepRunner::run(const std::vector<Tensor>& feeds, Deadline deadline) {
  Lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  step_.deadline = deadline.resolve(default_timeout(world_));
  for (std::size_t i = 0; i < feeds.size(); ++i)
    if (program_[i].work == Work::feed) values_[i] = {feeds[i]};
  begin_step();
  take_turns(lock, 0);
  changed_.wait(lock, [&] { return running_ == 0; });
  activity_.end_step(failure_.ok());
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i].clear();
  queue_.clear();
  runnable_ = 0;
  if (!failure_.ok()) return failure_;
  memory_.end_step();
  ++step_.number;
  return std::move(fetched_);
}

void StepRunner::begin_step() {
  fetched_.clear();
  activity_.begin_step(step_.number);
  left_ = program_.size();
  for (std::size_t i = 0; i < program_.size(); ++i) {
    waits_[i] = program_[i].earlier;
    users_[i] = program_[i].users;
    if (waits_[i] == 0) queue_.push_back({static_cast<NodeId>(i)});
  }
  runnable_ = queue_.size();
  if (!threads_.empty()) changed_.notify_all();
}

void StepRunner::serve(int thread) {
  Lock lock(mutex_);
  while (!is_ending_) {
    take_turns(lock, thread);
    changed_.wait(lock, [&] { return is_ending_ || !is_over(); });
  }
}

void StepRunner::take_turns(Lock& lock, int thread) {
  while (!is_over()) {
    if (runnable_ == 0) {
      idle(lock);
      continue;
    }
    if (step_.deadline.passed()) return fail(late());
    Entry entry = queue_.front();
    queue_.pop_front();
    if (!entry.is_under_way || entry.is_due)
      --runnable_;
    else
      activity_.count_probe(at(entry.node).edge);
    if (!queue_.empty()) call_helper();
    ++running_;
    activity_.begin_node(entry.node);
    lock.unlock();
    const Result<bool> ended = advance(entry);
    lock.lock();
    const bool is_complete = ended.ok() && *ended;
    if (is_complete)
      activity_.complete_node(entry.node, thread, edge_of(entry.node));
    else
      activity_.end_node(entry.node);
    --running_;
    if (!ended.ok())
      fail_at(entry.node, ended.status());
    else if (is_complete)
      complete(entry.node);
    else
      put_off(entry);
    if (is_over()) changed_.notify_all();
  }
}

void StepRunner::idle(Lock& lock) {
  if (!queue_.empty() && !is_watched_) return watch_network(lock);
  ++idle_;
  // Another thread runs a node or watches the network; both look at the deadline.
  changed_.wait(lock);
  --idle_;
}

Awaited StepRunner::awaited(NodeId node) noexcept {
  const Instruction& one = at(node);
  return one.work == Work::receive ? ends_.receives[one.edge]->awaited()
                                   : ends_.sends[one.edge]->awaited();
}

void StepRunner::watch_network(Lock& lock) {
  is_watched_ = true;
  is_woken_.store(false, std::memory_order_relaxed);
  ++running_;
  ++activity_.counters().sleeps;
  watched_.clear();
  std::vector<Slot*> slots;
  std::vector<Request*> requests;
  std::vector<PublishedReader*> readers;
  std::vector<weft::detail::Condition*> conditions;
  // In the order of wait_any(): by kind.
  std::array<std::vector<Entry>, std::variant_size_v<Awaited>> entries;
  for (const Entry entry : queue_) {
    const Awaited end = awaited(entry.node);
    if (Slot* const* slot = std::get_if<Slot*>(&end)) slots.push_back(*slot);
    if (Request* const* request = std::get_if<Request*>(&end)) requests.push_back(*request);
    if (PublishedReader* const* reader = std::get_if<PublishedReader*>(&end))
      readers.push_back(*reader);
    if (weft::detail::Condition* const* one = std::get_if<weft::detail::Condition*>(&end))
      conditions.push_back(*one);
    entries[end.index()].push_back(entry);
  }
  for (const auto& some : entries) watched_.insert(watched_.end(), some.begin(), some.end());
  queue_.clear();
  const NodeId first = watched_.front().node;
  const stats::WaitAbout about = activity_.awaiting(first, at(first).edge, watched_.size() - 1);
  const Deadline deadline = step_.deadline;
  lock.unlock();
  const auto is_woken = [this] {
    return is_woken_.load(std::memory_order_acquire) || neighbours_.news().has_value();
  };
  const Result<std::size_t> found =
      wait_any(world_,
               {.set = {.slots = slots, .requests = requests, .readers = readers},
                .conditions = conditions,
                .woken = is_woken,
                .about = about},
               deadline);
  lock.lock();
  --running_;
  is_watched_ = false;
  if (found.ok() && *found < watched_.size()) {
    watched_[*found].is_due = true;
    ++runnable_;
  }
  queue_.insert(queue_.begin(), watched_.begin(), watched_.end());
  if (const auto news = neighbours_.news(); news)
    fail(told(*news), news->node);
  else if (!found.ok())
    fail(found.code() == Code::timeout ? late() : found.status());
  if (is_over()) changed_.notify_all();
}

void StepRunner::put_off(Entry entry) {
  if (!entry.is_under_way) activity_.begin_wait(at(entry.node).edge);
  enqueue({entry.node, true, false});
}

void StepRunner::enqueue(Entry entry) {
  queue_.push_back(entry);
  if (!entry.is_under_way) ++runnable_;
  if (entry.is_under_way && !is_watched_) return;  // this thread goes on with it
  if (idle_ > 0 && !entry.is_under_way) return changed_.notify_one();
  wake_watcher();
}

void StepRunner::call_helper() {
  if (idle_ > 0) return changed_.notify_one();
  if (runnable_ > 0) wake_watcher();
}

void StepRunner::wake_watcher() {
  if (!is_watched_) return;
  is_woken_.store(true, std::memory_order_release);
  wake(world_);
}

std::optional<Neighbours::News> StepRunner::news_of_viewed(NodeId node) const noexcept {
  std::optional<Neighbours::News> news;
  for (const NodeId receive : at(node).reads) {
    const Edge& edge = plan_.edges[at(receive).edge];
    if (edge.kind != EdgeKind::viewed) continue;
    // A rank whose step fails tells so before its application may write the memory.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if ((news = neighbours_.news_from(edge.from))) break;
  }
  return news;
}

void StepRunner::complete(NodeId node) {
  if (const auto news = news_of_viewed(node)) return fail(told(*news), news->node);
  ++activity_.counters().nodes;
  if (at(node).peer >= 0) activity_.end_wait(at(node).edge);
  // Before its successors run: a credit-free send elsewhere may follow from one of them.
  for (const NodeId receive : at(node).reads)
    if (--users_[static_cast<std::size_t>(receive)] == 0)
      ends_.receives[at(receive).edge]->release();
  for (const NodeId later : at(node).later)
    if (--waits_[static_cast<std::size_t>(later)] == 0) enqueue({later});
  --left_;
}

void StepRunner::fail_at(NodeId node, const Status& status) {
  if (at(node).peer < 0) return fail(about(node, status), node);
  // A neighbour that has left because its step failed said why before.
  if (const auto news = neighbours_.news()) return fail(told(*news), news->node);
  fail(about(node, status), is_of_peer(status.code()) ? -1 : node);
}

void StepRunner::fail(const Status& status, NodeId node) {
  if (!failure_.ok()) return;
  failure_ = status;
  const int peer = is_of_peer(status.code()) ? status.detail().peer : -1;
  const bool is_gone = peer >= 0 && status.code() != Code::closed && status.code() != Code::timeout;
  neighbours_.tell({world_.rank(), peer >= 0 ? peer : world_.rank(), is_gone, node});
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the application writes: see above
  wake_watcher();
  changed_.notify_all();
}

}  // namespace weft::dataflow
