#include "tests/cuda/driver/capture.hpp"

#include <algorithm>

using namespace weft::stand_in;

struct CUuserObject_st {
  void* memory;
  weft::p2p::cuda::HostFunction destroy;
  unsigned references;
};

namespace weft::stand_in {
namespace {

void release(p2p::cuda::UserObject object, unsigned count) {
  object->references -= std::min(count, object->references);
  if (object->references != 0) return;
  // A real driver calls it on a thread of its own, where no call of the driver may be made.
  Machine::thread().in_host_function = true;
  object->destroy(object->memory);
  Machine::thread().in_host_function = false;
  forget(object);
  delete object;
}

std::vector<CaptureSession*>& sessions() {
  static auto* const all = new std::vector<CaptureSession*>;
  return *all;
}

/// All nodes on which those of `ends` depend, and these.
std::set<std::size_t> ancestry(const CaptureSession& session, std::vector<std::size_t> ends) {
  std::set<std::size_t> seen;
  while (!ends.empty()) {
    const std::size_t node = ends.back();
    ends.pop_back();
    if (!seen.insert(node).second) continue;
    for (const std::size_t before : session.nodes[node].after) ends.push_back(before);
  }
  return seen;
}

void end_session(CaptureSession& session) {
  for (Stream* stream : session.joined) {
    stream->capture_nodes.clear();
    if (stream != session.origin) stream->capture = nullptr;
  }
  std::erase(sessions(), &session);
}

}  // namespace

void release(UserObjects& objects) {
  for (const p2p::cuda::UserObject object : objects) release(object, 1);
  objects.clear();
}

DriverStatus capture(Stream& stream, Operation operation) {
  CaptureSession& session = *stream.capture;
  if (session.invalidated) return DriverStatus::capture_invalidated;
  const auto branch = static_cast<std::size_t>(
      std::find(session.joined.begin(), session.joined.end(), &stream) - session.joined.begin());
  const std::size_t node = session.nodes.size();
  session.nodes.push_back(
      {std::move(operation), std::exchange(stream.capture_nodes, {node}), branch});
  return DriverStatus::success;
}

DriverStatus join_capture(Stream& stream, const CUevent_st& event) {
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->invalidated = event.capture->invalidated = true;
    return DriverStatus::capture_invalidated;
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    event.capture->joined.push_back(&stream);
  }
  stream.capture_nodes.insert(stream.capture_nodes.end(), event.capture_nodes.begin(),
                              event.capture_nodes.end());
  return DriverStatus::success;
}

DriverStatus refusal_by_captures(const char* function) {
  const auto here = std::this_thread::get_id();
  const CaptureMode own = Machine::thread().capture_mode;
  if (own == CaptureMode::relaxed) return DriverStatus::success;
  DriverStatus answer = DriverStatus::success;
  for (CaptureSession* session : sessions()) {
    const bool is_own = session->thread == here && session->mode != CaptureMode::relaxed;
    const bool is_others = session->thread != here && session->mode == CaptureMode::global &&
                           own == CaptureMode::global;
    if (!is_own && !is_others) continue;
    if (is_others)
      machine().complain(std::string(function) + ": unsafe during another thread's capture");
    session->invalidated = true;
    answer = DriverStatus::capture_unsupported;
  }
  return answer;
}

DriverStatus refusal_by_capture_of(const Stream& stream) {
  if (stream.capture == nullptr) return DriverStatus::success;
  stream.capture->invalidated = true;
  return DriverStatus::capture_unsupported;
}

}  // namespace weft::stand_in

namespace weft::p2p::cuda {
namespace {

/// Launches the nodes on the streams of the graph, behind what is on `stream`, which waits for all.
DriverStatus launch_nodes(CUgraphExec_st& graph, Stream& stream) {
  std::vector<CompletionPtr> done;
  std::vector<CompletionPtr> before{stream.last, graph.last};
  for (const Node& node : graph.nodes) {
    Operation operation = node.operation;
    operation.done = std::make_shared<Completion>();
    operation.after = before;
    for (const std::size_t after : node.after) operation.after.push_back(done[after]);
    done.push_back(operation.done);
    const DriverStatus status = enqueue(*graph.branches[node.branch], std::move(operation));
    if (status != kOk) return status;
  }
  Operation join{.kind = "graph", .after = std::move(done)};
  join.after.insert(join.after.end(), before.begin(), before.end());
  graph.last = join.done;
  return enqueue(stream, std::move(join));
}

}  // namespace

extern "C" {

DriverStatus cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  STAND_IN_CALL(cuThreadExchangeStreamCaptureMode, false, plain);
  std::swap(*mode, Machine::thread().capture_mode);
  return kOk;
}

DriverStatus cuStreamBeginCapture_v2(StreamHandle handle, CaptureMode mode) {
  STAND_IN_CALL(cuStreamBeginCapture_v2, false, plain);
  if (handle == nullptr) return DriverStatus::capture_unsupported;
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  if (stream->capture != nullptr) return kInvalid;
  stream->capture =
      std::make_shared<CaptureSession>(CaptureSession{.mode = mode,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream,
                                                      .joined = {stream},
                                                      .graph = std::make_unique<CUgraph_st>()});
  sessions().push_back(stream->capture.get());
  return kOk;
}

DriverStatus cuStreamEndCapture(StreamHandle handle, Graph* graph) {
  STAND_IN_CALL(cuStreamEndCapture, false, plain);
  Stream* stream = handle == nullptr ? nullptr : find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  const auto session = stream->capture;
  if (session == nullptr) return kInvalid;
  *graph = nullptr;
  if (session->origin != stream) return DriverStatus::capture_unmatched;
  if (session->mode != CaptureMode::relaxed && session->thread != std::this_thread::get_id())
    return DriverStatus::capture_wrong_thread;
  const bool all_joined = ancestry(*session, stream->capture_nodes).size() == session->nodes.size();
  end_session(*session);
  stream->capture = nullptr;
  if (session->invalidated || !all_joined) {
    release(session->graph->objects);
    return session->invalidated ? DriverStatus::capture_invalidated
                                : DriverStatus::capture_unjoined;
  }
  session->graph->nodes = std::move(session->nodes);
  *graph = remember(session->graph.release(), "graphs");
  return kOk;
}

DriverStatus cuStreamGetCaptureInfo_v2(StreamHandle handle, CaptureStatus* status,
                                       std::uint64_t* id, Graph* graph,
                                       const GraphNode** dependencies, std::size_t* count) {
  STAND_IN_CALL(cuStreamGetCaptureInfo_v2, false, plain);
  const Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  *status = CaptureStatus::none;
  if (stream->capture == nullptr) return kOk;
  if (dependencies != nullptr || count != nullptr) return DriverStatus::not_supported;
  *status = stream->capture->invalidated ? CaptureStatus::invalidated : CaptureStatus::active;
  if (id != nullptr) *id = reinterpret_cast<std::uintptr_t>(stream->capture.get());
  if (graph != nullptr) *graph = stream->capture->graph.get();
  return kOk;
}

DriverStatus cuUserObjectCreate(UserObject* object, void* memory, HostFunction destroy,
                                unsigned references, unsigned flags) {
  STAND_IN_CALL(cuUserObjectCreate, false, plain);
  if (destroy == nullptr || references == 0 || flags != kUserObjectNoDestructorSync)
    return kInvalid;
  *object = remember(new CUuserObject_st{memory, destroy, references}, "user objects");
  return kOk;
}

DriverStatus cuUserObjectRelease(UserObject object, unsigned count) {
  STAND_IN_CALL(cuUserObjectRelease, false, plain);
  if (!is_live(object, "user objects")) return kInvalid;
  release(object, count);
  return kOk;
}

DriverStatus cuGraphRetainUserObject(Graph graph, UserObject object, unsigned count,
                                     unsigned flags) {
  STAND_IN_CALL(cuGraphRetainUserObject, false, plain);
  if (graph == nullptr || !is_live(object, "user objects") || count != 1) return kInvalid;
  if (flags != kGraphUserObjectMove) object->references += count;
  graph->objects.push_back(object);
  return kOk;
}

DriverStatus cuStreamIsCapturing(StreamHandle handle, CaptureStatus* status) {
  STAND_IN_CALL(cuStreamIsCapturing, false, plain);
  const Stream* stream = find_stream(handle);
  if (stream == nullptr) return DriverStatus::invalid_handle;
  *status = stream->capture == nullptr     ? CaptureStatus::none
            : stream->capture->invalidated ? CaptureStatus::invalidated
                                           : CaptureStatus::active;
  return kOk;
}

DriverStatus cuGraphInstantiateWithFlags(GraphExec* executable, Graph graph,
                                         unsigned long long flags) {
  STAND_IN_CALL(cuGraphInstantiateWithFlags, true, waits);
  if (!is_live(graph, "graphs") || flags != 0) return kInvalid;
  auto* made =
      remember(new CUgraphExec_st{.nodes = graph->nodes, .device = machine().current()->device},
               "executable graphs");
  made->objects = graph->objects;
  for (const UserObject object : made->objects) ++object->references;
  std::size_t branches = 0;
  for (const Node& node : made->nodes) branches = std::max(branches, node.branch + 1);
  for (std::size_t i = 0; i < branches; ++i)
    made->branches.push_back(make_stream(made->device, false));
  *executable = made;
  return kOk;
}

DriverStatus cuGraphLaunch(GraphExec executable, StreamHandle handle) {
  STAND_IN_CALL(cuGraphLaunch, false, plain);
  Stream* stream = find_stream(handle);
  if (!is_live(executable, "executable graphs") || stream == nullptr)
    return DriverStatus::invalid_handle;
  if (const auto refused = refusal_by_capture_of(*stream); refused != kOk) return refused;
  return launch_nodes(*executable, *stream);
}

DriverStatus cuGraphDestroy(Graph graph) {
  STAND_IN_CALL(cuGraphDestroy, false, plain);
  if (!is_live(graph, "graphs")) return kInvalid;
  release(graph->objects);
  forget(graph);
  delete graph;
  return kOk;
}

DriverStatus cuGraphExecDestroy(GraphExec executable) {
  STAND_IN_CALL(cuGraphExecDestroy, false, plain);
  if (!is_live(executable, "executable graphs")) return kInvalid;
  forget(executable);
  for (Stream* branch : executable->branches) end_stream(call.lock, branch);
  release(executable->objects);
  delete executable;
  return kOk;
}

}  // extern "C"
}  // namespace weft::p2p::cuda
