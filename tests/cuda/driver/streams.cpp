#include "tests/cuda/driver/streams.hpp"

#include <algorithm>
#include <chrono>

#include "tests/cuda/driver/capture.hpp"

namespace weft::stand_in {
namespace {

using std::chrono::microseconds;

// A word that a stream waits on is written without a call: by the processor, or another process.
constexpr microseconds kLook{50};

bool is_done(const CompletionPtr& completion) { return completion == nullptr || completion->done; }

Gpu& gpu_of(const Stream& stream) {
  return machine().gpus[static_cast<std::size_t>(stream.device)];
}

bool lost(const Stream& stream) { return gpu_of(stream).fault != DriverStatus::success; }

/// Whether the first operation could run now.
bool could_run(const Stream& stream) {
  if (stream.queue.empty() || stream.running) return false;
  const Operation& first = stream.queue.front();
  if (!std::all_of(first.after.begin(), first.after.end(), is_done)) return false;
  return !first.ready || lost(stream) || first.ready();
}

/// Runs the first operation of a stream that could_run().
void run_first(Lock& lock, Stream& stream) {
  stream.running = true;
  Operation& first = stream.queue.front();  // stays: others only add behind it
  DriverStatus status = DriverStatus::success;
  if (!lost(stream) && first.run) {
    lock.unlock();
    status = first.run();
    lock.lock();
  }
  if (status != DriverStatus::success) gpu_of(stream).fault = status;
  first.done->done = true;
  stream.queue.pop_front();
  stream.running = false;
  machine().changed.notify_all();
}

/// The stream that has to move for `completion` to come about: its own, or one that it waits for.
Stream* in_the_way(const CompletionPtr& completion) {
  Stream* stream = completion->stream;
  const Operation& first = stream->queue.front();
  for (const CompletionPtr& before : first.after)
    if (!is_done(before)) return in_the_way(before);
  return stream;
}

/// A stream that could run, drawn by the seed; null: none.
Stream* any_that_could_run() {
  std::vector<Stream*> ready;
  for (Stream* stream : streams())
    if (could_run(*stream)) ready.push_back(stream);
  return ready.empty() ? nullptr : ready[machine().random() % ready.size()];
}

/// One step of lazy streams towards `completion`, or a short wait if none is possible.
void advance(Lock& lock, const CompletionPtr& completion) {
  Stream* stream = in_the_way(completion);
  // A word that it waits for may be the work of any stream.
  if (!could_run(*stream)) stream = any_that_could_run();
  if (stream != nullptr)
    run_first(lock, *stream);
  else
    machine().changed.wait_for(lock, kLook);
}

bool lazy() { return machine().options.pace == Pace::lazy; }

microseconds drawn_delay() {
  const auto longest = machine().options.delay.count();
  return microseconds(
      longest == 0 ? 0
                   : static_cast<long>(machine().random() % static_cast<std::uint64_t>(longest)));
}

/// A stream's thread. A lazy one only runs what nothing has asked for in time.
void work(Stream& stream) {
  Lock lock(machine().mutex);
  while (!stream.ending) {
    if (!could_run(stream)) {
      if (stream.queue.empty())
        machine().changed.wait(lock, [&] { return stream.ending || !stream.queue.empty(); });
      else
        machine().changed.wait_for(lock, kLook);
      continue;
    }
    const bool is_lazy = lazy();
    const auto pause = is_lazy ? microseconds(machine().options.idle) : drawn_delay();
    const CompletionPtr first = stream.queue.front().done;
    if (pause.count() > 0) {
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
      if (first->done || !could_run(stream)) continue;
    }
    run_first(lock, stream);
  }
}

std::vector<Stream*>& null_streams() {
  static auto* const list = new std::vector<Stream*>;
  return *list;
}

/// The null stream and those that are in order with it.
void order_with_null_stream(Stream& stream, Operation& operation) {
  const auto after = [&](const Stream& other) {
    if (&other != &stream && other.device == stream.device && !is_done(other.last))
      operation.after.push_back(other.last);
  };
  const auto& nulls = null_streams();
  if (std::find(nulls.begin(), nulls.end(), &stream) != nulls.end()) {
    for (const Stream* other : streams())
      if (other->blocking) after(*other);
  } else if (stream.blocking) {
    for (const Stream* other : nulls) after(*other);
  }
}

}  // namespace

std::vector<Stream*>& streams() {
  static auto* const all = new std::vector<Stream*>;
  return *all;
}

Stream* make_stream(int device, bool blocking) {
  auto* stream = new Stream;
  stream->device = device;
  stream->blocking = blocking;
  streams().push_back(stream);
  if (!lazy() || machine().options.idle.count() > 0)
    stream->worker = std::thread([stream] { work(*stream); });
  return stream;
}

void end_stream(Lock& lock, Stream* stream) {
  wait_for(lock, stream->last);
  while (stream->running) machine().changed.wait(lock);
  stream->ending = true;
  std::erase(streams(), stream);
  machine().changed.notify_all();
  lock.unlock();
  if (stream->worker.joinable()) stream->worker.join();
  lock.lock();
  delete stream;
}

void end_null_streams(Lock& lock) {
  for (Stream* stream : std::exchange(null_streams(), {})) end_stream(lock, stream);
}

Stream* find_stream(StreamHandle handle) {
  if (handle != nullptr)
    return is_live(handle, "streams") ? reinterpret_cast<Stream*>(handle) : nullptr;
  if (machine().current() == nullptr) return nullptr;
  const int device = machine().current()->device;
  for (Stream* stream : null_streams())
    if (stream->device == device) return stream;
  return null_streams().emplace_back(make_stream(device, false));
}

DriverStatus enqueue(Stream& stream, Operation operation) {
  if (lost(stream)) return gpu_of(stream).fault;
  if (stream.capture != nullptr) return capture(stream, std::move(operation));
  order_with_null_stream(stream, operation);
  operation.done->stream = &stream;
  stream.last = operation.done;
  stream.queue.push_back(std::move(operation));
  machine().changed.notify_all();
  return DriverStatus::success;
}

void wait_for(Lock& lock, const CompletionPtr& completion) {
  while (!is_done(completion)) {
    if (lazy())
      advance(lock, completion);
    else
      machine().changed.wait(lock);
  }
}

bool query(Lock& lock, const CompletionPtr& completion) {
  const bool moves = lazy() && !machine().clock_stands;
  if (!is_done(completion) && moves && machine().random() % 4 == 0) advance(lock, completion);
  return is_done(completion);
}

int step(Lock& lock, int most) {
  int count = 0;
  for (; count < most; ++count) {
    Stream* stream = any_that_could_run();
    if (stream == nullptr) break;
    run_first(lock, *stream);
  }
  return count;
}

void tick(Lock& lock, std::size_t bytes) {
  // All have the same time, whichever comes first: what one ends, another begins in the next tick.
  std::vector<std::pair<Stream*, std::size_t>> work;
  for (Stream* stream : streams()) work.emplace_back(stream, stream->queue.size());
  for (const auto& [stream, queued] : work) {
    std::size_t left = bytes;
    for (std::size_t i = 0; i < queued && could_run(*stream); ++i) {
      std::size_t& needed = stream->queue.front().bytes;
      const std::size_t copied = std::min(needed, left);
      needed -= copied;
      left -= copied;
      if (needed != 0) break;
      run_first(lock, *stream);
    }
  }
}

bool a_stream_waits_on_a_word() {
  for (const Stream* stream : streams())
    for (const Operation& operation : stream->queue)
      if (operation.ready && !operation.ready()) return true;
  return false;
}

}  // namespace weft::stand_in
