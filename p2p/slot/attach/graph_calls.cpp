#include "p2p/slot/attach/graph_calls.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/user_stream.hpp"

namespace weft::p2p {

GraphCall::GraphCall(Kind kind_of_call, std::shared_ptr<GraphPort> port_of_end,
                     const cuda::Capture& in, std::chrono::nanoseconds patience_of_run)
    : kind(kind_of_call),
      port(std::move(port_of_end)),
      gpu(in.stream.gpu),
      capture(in.id),
      patience(patience_of_run) {
  if (kind == Kind::release || kind == Kind::put) return;
  const bool has_outcome = kind == Kind::wait || kind == Kind::get;
  if (kind == Kind::wait) port->expect_wait();
  cuda::StreamWords& words = gpu->words(operation());
  words_ = words.take(operation(), has_outcome ? 2 : 1);
  go = words.at(words_.front());
  if (has_outcome) outcome = words.at(words_.back());
  for (const std::uint32_t word : words_) cuda::tell_gpus(*words.at(word), 0);
  words.count_captured(1);
}

GraphCall::~GraphCall() {
  if (words_.empty() || gpu->forked()) return;
  gpu->words_in_use()->count_captured(-1);
  gpu->words_in_use()->give_back(words_);
}

const char* GraphCall::operation() const noexcept {
  switch (kind) {
    case Kind::wait:
    case Kind::release:
      return "wait";
    case Kind::put:
    case Kind::put_end:
      return "put";
    case Kind::publish:
      return "publish";
    case Kind::get:
      return "get";
  }
  return "";
}

void GraphCall::on_last_handle() noexcept {
  if (kind == Kind::wait) port->forget_wait(held);
  of = nullptr;
}

bool GraphCall::is_at_home() const noexcept { return !port->is_closed(); }

void GraphCall::add_to(const cuda::Capture& in) {
  const cuda::Driver& driver = gpu->driver();
  cuda::keep_by_graph(in, operation(), shared_from_this());
  const auto begin = [](void* call) {
    auto& self = *static_cast<GraphCall*>(call);
    self.port->begin(self);
  };
  gpu->check(driver.launch_host_function(in.stream.handle, begin, this), operation(),
             "cuLaunchHostFunc");
  if (waits())
    gpu->check(driver.wait_value32(in.stream.handle, reinterpret_cast<cuda::DevicePointer>(go), 1,
                                   cuda::kWaitValueEqual),
               operation(), "cuStreamWaitValue32");
}

void GraphPort::begin(GraphCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++call.begun;
  const bool overlaps = call.waits() && call.ended + 1 != number;
  if (call.waits()) cuda::tell_gpus(*call.go, 0);
  // A put that has ended already lets its stream go on at once.
  const bool is_over =
      call.kind == GraphCall::Kind::put_end && !overlaps && call.of->ended >= number;
  if (closed_ != 0 || is_over) return go_on(call, number, closed_);
  try {
    const auto now = Clock::now();
    const bool is_beyond = call.patience > Clock::time_point::max() - now;
    runs_.push_back({call.shared_from_this(), number,
                     Deadline::at(is_beyond ? Clock::time_point::max() : now + call.patience),
                     overlaps});
  } catch (...) {
    any_lost_ = true;
    go_on(call, number, static_cast<std::uint32_t>(Code::exhausted));
    return wake_();
  }
  if (call.waits()) call.gpu->words_in_use()->count_waiting(1);
  wake_();
}

bool GraphPort::take(std::vector<Run>& runs) {
  const std::lock_guard lock(mutex_);
  runs.insert(runs.end(), runs_.begin(), runs_.end());
  runs_.clear();
  return !std::exchange(any_lost_, false);
}

bool GraphPort::has_runs() const noexcept {
  const std::lock_guard lock(mutex_);
  return !runs_.empty() || any_lost_;
}

void GraphPort::expect_wait() {
  const std::lock_guard lock(mutex_);
  forgotten_.reserve(forgotten_.size() + waits_ + 1);
  ++waits_;
}

void GraphPort::forget_wait(std::uint64_t held) noexcept {
  const std::lock_guard lock(mutex_);
  --waits_;
  if (held == 0 || closed_ != 0) return;
  forgotten_.push_back(held);
  wake_();
}

std::uint64_t GraphPort::next_forgotten() noexcept {
  const std::lock_guard lock(mutex_);
  if (forgotten_.empty()) return 0;
  const std::uint64_t held = forgotten_.back();
  forgotten_.pop_back();
  return held;
}

bool GraphPort::is_closed() const noexcept {
  const std::lock_guard lock(mutex_);
  return closed_ != 0;
}

void GraphPort::end(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept {
  const std::lock_guard lock(mutex_);
  end_locked(call, number, code);
}

bool GraphPort::end_last(GraphCall& call, std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  if (call.begun != number) return false;
  end_locked(call, number, 0);
  return true;
}

void GraphPort::end_locked(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept {
  go_on(call, number, code);
  if (call.waits()) call.gpu->words_in_use()->count_waiting(-1);
}

void GraphPort::go_on(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept {
  call.ended = std::max(call.ended, number);
  // A run that has begun meanwhile has the words now, and says when both streams go on.
  if (!call.waits() || number != call.begun) return;
  if (call.outcome != nullptr) cuda::tell_gpus(*call.outcome, code);
  cuda::tell_gpus(*call.go, 1);
}

bool GraphPort::has_ended(const GraphCall& call, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  return call.ended >= number;
}

void GraphPort::close(Code why) noexcept {
  std::vector<Run> left;  // goes when the lock has: the last handle of a wait takes it too
  const std::lock_guard lock(mutex_);
  if (closed_ == 0) closed_ = static_cast<std::uint32_t>(why);
  for (const Run& run : runs_) end_locked(*run.call, run.number, closed_);
  left.swap(runs_);
}

std::chrono::nanoseconds patience(const LocalRank& local, Deadline deadline) noexcept {
  return std::max(deadline.resolve(local.waiter.default_timeout()).left(),
                  std::chrono::nanoseconds(0));
}

Status lost_runs() {
  return refuse(Code::exhausted, [] {
    return ErrorDetail{.message = "no memory to remember that a replay has come to a call",
                       .hint = "the replay has not put, or not taken, its tensor"};
  });
}

Status overlap() {
  return refuse(Code::bad_argument, [] {
    return ErrorDetail{
        .message = "two executables of one captured graph, or two copies of it, work at once",
        .hint = "capture anew for each executable, or launch one behind the other"};
  });
}

void check_capture(LocalRank& local, const char* operation) {
  if (cuda::launches_block())
    throw_error(Code::bad_argument, operation,
                "the stream captures a graph, and CUDA_LAUNCH_BLOCKING is set",
                "unset it: a graph's streams must be able to wait");
  if (local.waiter.sleeper() != nullptr)
    throw_error(Code::bad_argument, operation,
                "the stream captures a graph, and the job is simulated",
                "graphs are replayed in real time: run the job on threads or processes");
}

}  // namespace weft::p2p
