// Streams that are captured into a graph instead of working.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/cuda/driver/streams.hpp"

namespace weft::stand_in {

using p2p::cuda::HostFunction;

/// An operation of a graph. `after`: nodes before it; `branch`: operations of one number are in
/// order, others run beside each other.
struct Node {
  Operation operation;
  std::vector<std::size_t> after;
  std::size_t branch;
};

/// An object of the program's that graphs keep: `destroy` is called once no graph does.
struct KeptObject {
  KeptObject(void* what, HostFunction how) : object(what), destroy(how) {}
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;
  ~KeptObject();

  void* const object;
  const HostFunction destroy;
};

}  // namespace weft::stand_in

struct CUgraph_st {
  std::vector<weft::stand_in::Node> nodes{};
  std::vector<std::shared_ptr<weft::stand_in::KeptObject>> kept{};
};

namespace weft::stand_in {

struct CaptureSession {
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread{};
  Stream* origin = nullptr;
  std::vector<Stream*> joined{};  ///< the origin first; a stream's place is its branch
  std::vector<Node> nodes{};
  bool invalidated = false;
  std::uint64_t id = 0;
  std::unique_ptr<CUgraph_st> graph{};  ///< the capture's, until it has ended
};

/// Adds an operation to the capture of the stream.
DriverStatus capture(Stream& stream, Operation operation);
/// The stream becomes part of the event's capture, behind what the event marks.
DriverStatus join_capture(Stream& stream, const CUevent_st& event);
/// The answer to a call that is unsafe beside captures under way; it invalidates them.
DriverStatus refusal_by_captures(const char* function);
/// The same for a call on a stream that is being captured.
DriverStatus refusal_by_capture_of(const Stream& stream);

}  // namespace weft::stand_in

struct CUuserObject_st {
  std::shared_ptr<weft::stand_in::KeptObject> kept;
};

struct CUgraphExec_st {
  std::vector<weft::stand_in::Node> nodes{};
  std::vector<std::shared_ptr<weft::stand_in::KeptObject>> kept{};
  std::vector<weft::stand_in::Stream*> branches{};
  int device = 0;
  weft::stand_in::CompletionPtr
      last{};  ///< of the newest launch; launches of one graph are in order
};
