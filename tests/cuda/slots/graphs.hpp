// Shared by the tests of slots in captured graphs.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/capture.hpp"
#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {

using Seen = std::vector<std::vector<float>>;

inline std::uint32_t number_of(Code code) { return static_cast<std::uint32_t>(code); }

/// Elements of a tensor: some chunks of 4 KiB.
inline constexpr std::size_t kInGraph = 3000;

inline SlotSpec graph_spec(Memory memory, std::uint32_t depth = 2) {
  return stream_spec(memory, kInGraph, depth);
}

/// A graph that is captured on a stream of the application's, from the making of this object until
/// end().
class OwnGraph {
 public:
  explicit OwnGraph(const OwnStream& own, CaptureMode mode = CaptureMode::thread_local_)
      : driver_(**load_driver()), own_(own) {
    EXPECT_OK(driver_.begin_capture(own.handle(), mode));
  }
  OwnGraph(const OwnGraph&) = delete;
  OwnGraph& operator=(const OwnGraph&) = delete;
  ~OwnGraph() {
    destroy();
    reap_graphs();
  }

  /// Each replay calls `function` then, on a thread of the driver's.
  void call(std::function<void()> function) {
    functions_.push_back(std::move(function));
    EXPECT_OK(driver_.launch_host_function(
        own_.handle(), [](void* user) { (*static_cast<std::function<void()>*>(user))(); },
        &functions_.back()));
  }
  /// The capture ends, and the graph can be launched.
  void end() {
    EXPECT_OK(driver_.end_capture(own_.handle(), &graph_));
    executable_ = instantiate();
  }
  GraphExec instantiate() {
    const ForApplication application;
    GraphExec made = nullptr;
    EXPECT_OK(driver_.instantiate_graph(&made, graph_, 0));
    return made;
  }
  void launch() { launch(executable_, own_.handle()); }
  void launch(GraphExec executable, StreamHandle on) {
    EXPECT_OK(driver_.launch_graph(executable, on));
  }
  void destroy() {
    const ForApplication application;
    if (executable_ != nullptr) {
      EXPECT_OK(driver_.destroy_graph_exec(std::exchange(executable_, nullptr)));
    }
    if (graph_ != nullptr) {
      EXPECT_OK(driver_.destroy_graph(std::exchange(graph_, nullptr)));
    }
  }

 private:
  class ForApplication {
   public:
    ForApplication() { act(true); }
    ForApplication(const ForApplication&) = delete;
    ForApplication& operator=(const ForApplication&) = delete;
    ~ForApplication() { act(false); }

   private:
    static void act(bool on) {
      if (auto* control = stand_in::control()) control->act_for_application(on);
    }
  };

  const Driver& driver_;
  const OwnStream& own_;
  std::deque<std::function<void()>> functions_;
  Graph graph_ = nullptr;
  GraphExec executable_ = nullptr;
};

/// A graph that waits for one tensor and reads it. The outcomes and the elements of all replays.
struct GraphReader {
  GraphReader(World& world, Slot& slot, Deadline deadline = {})
      : own(world, 0, kInGraph, 1), graph(std::make_unique<OwnGraph>(own)) {
    Arrival arrival = slot.wait_on(own.get(), deadline).value();
    const std::uint32_t* const outcome = arrival.outcome();
    own.read(0, arrival.tensor());
    graph->call([this, outcome] {
      outcomes.push_back(*outcome);
      seen.push_back(own.elements(0));
    });
    EXPECT_OK_STATUS(arrival.release(own.get()));
    graph->end();
  }
  std::uint32_t replay() {
    graph->launch();
    own.synchronize();
    return outcomes.back();
  }

  OwnStream own;
  std::unique_ptr<OwnGraph> graph;
  std::vector<std::uint32_t> outcomes{};
  std::vector<std::vector<float>> seen{};
};

/// A graph that puts a tensor.
struct GraphWriter {
  GraphWriter(World& world, RemoteSlot& remote, Deadline deadline = {})
      : tensor(tensor_of(world, Memory::gpu(0), counted(kInGraph))),
        own(world, 0, kInGraph, 1),
        graph(std::make_unique<OwnGraph>(own)) {
    EXPECT_OK_STATUS(remote.put(tensor, own.get()).wait_on(own.get(), deadline));
    graph->end();
  }
  void replay() {
    graph->launch();
    own.synchronize();
  }

  Tensor tensor;
  OwnStream own;
  std::unique_ptr<OwnGraph> graph;
};

/// Has a replay fill the tensor, each time with the next elements: counted(count, 0), ...
inline void capture_fill(OwnGraph& graph, OwnStream& own, const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.shape().elements());
  graph.call([&own, count, step = 0.0F]() mutable {
    const auto values = counted(count, step++);
    std::copy(values.begin(), values.end(), own.host(0));
  });
  own.write(0, tensor);
}

/// Has a replay read the tensor, and add its elements to `seen`.
inline void capture_read(OwnGraph& graph, OwnStream& own, const Tensor& tensor, Seen& seen) {
  own.read(0, tensor);
  graph.call([&] { seen.push_back(own.elements(0)); });
}

/// counted(count, first), counted(count, first + 1), ...
inline Seen all_counted(std::size_t count, std::size_t turns, std::size_t first = 0) {
  Seen all;
  for (std::size_t turn = 0; turn < turns; ++turn)
    all.push_back(counted(count, static_cast<float>(first + turn)));
  return all;
}

}  // namespace weft::tests
