// Streams and their operations.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda/driver/machine.hpp"

struct CUevent_st {
  int device = 0;
  /// The end of its last record; null: never recorded, which counts as done.
  weft::stand_in::CompletionPtr recorded{};
  /// Set while its last record is part of a capture: that, and the nodes before it.
  std::shared_ptr<weft::stand_in::CaptureSession> capture{};
  std::vector<std::size_t> capture_nodes{};
};

namespace weft::stand_in {

/// One operation. `run` works without the machine's lock and may be called again by a graph.
struct Operation {
  const char* kind = "";
  std::function<DriverStatus()> run{};
  /// A wait on a word: the operation's turn comes when this is true. Without the lock.
  std::function<bool()> ready{};
  std::vector<CompletionPtr> after{};
  std::size_t bytes = 0;  ///< of a copy, those that are still to be copied
  CompletionPtr done = std::make_shared<Completion>();
};

struct Stream {
  int device = 0;
  bool blocking = false;  ///< in order with the null stream
  std::deque<Operation> queue{};
  bool running = false;  ///< the first of the queue is being run
  bool ending = false;
  CompletionPtr last{};  ///< of the newest operation; null: there was none
  std::shared_ptr<CaptureSession> capture{};
  std::vector<std::size_t> capture_nodes{};  ///< on which the next captured operation depends
  std::thread worker{};
};

using Lock = std::unique_lock<std::mutex>;

/// All streams, those of graphs and the null streams too.
std::vector<Stream*>& streams();
/// The stream of a handle, with the null stream of the current context for null. Null: none.
Stream* find_stream(StreamHandle handle);
Stream* make_stream(int device, bool blocking);
/// Waits until all of it is done, then ends it.
void end_stream(Lock& lock, Stream* stream);
void end_null_streams(Lock& lock);

/// Adds an operation, or a node if the stream is being captured.
DriverStatus enqueue(Stream& stream, Operation operation);
/// Waits for an operation; null: nothing to wait for.
void wait_for(Lock& lock, const CompletionPtr& completion);
/// Whether an operation is done. A lazy stream moves on if it is asked often enough.
bool query(Lock& lock, const CompletionPtr& completion);
/// Runs up to `most` operations that could run.
int step(Lock& lock, int most);
/// Runs what each stream does while it copies `bytes` bytes.
void tick(Lock& lock, std::size_t bytes);
/// The kind of an operation that waits on a word which isn't set, or null.
bool a_stream_waits_on_a_word();

}  // namespace weft::stand_in
