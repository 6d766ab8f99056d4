// Streams that are captured into a graph instead of working.
#pragma once

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/cuda/driver/streams.hpp"

namespace weft::stand_in {

/// An operation of a graph. `after`: nodes before it; `branch`: operations of one number are in
/// order, others run beside each other.
struct Node {
  Operation operation;
  std::vector<std::size_t> after;
  std::size_t branch;
};

/// A reference of a graph's to memory of the application, which is told when the last one goes.
using UserObjects = std::vector<p2p::cuda::UserObject>;

}  // namespace weft::stand_in

struct CUgraph_st {
  std::vector<weft::stand_in::Node> nodes{};
  weft::stand_in::UserObjects objects{};
};

namespace weft::stand_in {

struct CaptureSession {
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread{};
  Stream* origin = nullptr;
  std::vector<Stream*> joined{};  ///< the origin first; a stream's place is its branch
  std::vector<Node> nodes{};
  bool invalidated = false;
  /// The graph to come; it has its nodes once the capture has ended.
  std::unique_ptr<CUgraph_st> graph;
};

/// Gives up references to each.
void release(UserObjects& objects);

/// Adds an operation to the capture of the stream.
DriverStatus capture(Stream& stream, Operation operation);
/// The stream becomes part of the event's capture, behind what the event marks.
DriverStatus join_capture(Stream& stream, const CUevent_st& event);
/// The answer to a call that is unsafe beside captures under way; it invalidates them.
DriverStatus refusal_by_captures(const char* function);
/// The same for a call on a stream that is being captured.
DriverStatus refusal_by_capture_of(const Stream& stream);

}  // namespace weft::stand_in

struct CUgraphExec_st {
  std::vector<weft::stand_in::Node> nodes{};
  std::vector<weft::stand_in::Stream*> branches{};
  weft::stand_in::UserObjects objects{};
  int device = 0;
  weft::stand_in::CompletionPtr
      last{};  ///< of the newest launch; launches of one graph are in order
};
