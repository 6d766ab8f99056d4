// Shared by the tests of published versions in captured graphs.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {

inline PublishedSpec edition(Memory memory, std::uint32_t depth = 3, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {kInGraph}, .depth = depth, .flow = flow, .memory = memory};
}

/// A graph that fills the slot's tensor with counted(kInGraph, 0), then 1 and so on, and publishes
/// it.
struct GraphPublisher {
  GraphPublisher(World& world, PublishedSlot& slot, Deadline deadline = {})
      : own(world, 0, kInGraph, 1), graph(std::make_unique<OwnGraph>(own)) {
    const Tensor tensor = slot.next().value();
    capture_fill(*graph, own, tensor);
    EXPECT_OK_STATUS(slot.publish(own.get(), deadline));
    graph->end();
  }
  void replay() {
    graph->launch();
    own.synchronize();
  }

  OwnStream own;
  std::unique_ptr<OwnGraph> graph;
};

inline std::vector<float> viewed(World& world, PublishedReader& reader) {
  return elements_of(world, reader.view().value().tensor());
}

class GraphsPublished : public OnStandInStreams {
 protected:
  /// A rank that publishes and reads.
  static void run(const std::function<void(World&, PublishedSlot&, PublishedReader&)>& body,
                  std::uint32_t depth = 3, Flow flow = Flow::credits) {
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(edition(Memory::gpu(0), depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      body(world, slot, reader);
    });
  }
  /// The versions that are seen of those that replays, or calls behind a stream, publish.
  static Seen publish(std::size_t turns, bool by_graphs, std::uint32_t depth, Flow flow) {
    Seen seen;
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
          std::optional<GraphPublisher> publisher;
          if (by_graphs) publisher.emplace(world, slot);
          OwnStream own(world, 0, kInGraph, 1);
          for (std::size_t turn = 0; turn < turns; ++turn) {
            if (publisher) {
              publisher->replay();
            } else {
              own.fill(0, slot.next().value(), static_cast<float>(turn));
              EXPECT_OK_STATUS(slot.publish(own.get()));
              own.synchronize();
            }
            const Arrival arrival = reader.view().value();
            EXPECT_EQ(arrival.sequence(), turn + 1);
            seen.push_back(elements_of(world, arrival.tensor()));
          }
        },
        depth, flow);
    return seen;
  }
  /// Rank 0 queues replays, and rank 1 views what it finds. Returns whether each version was whole,
  /// and the last one was found.
  static bool views_whole_versions(Over fabric, std::uint64_t seed = 1) {
    constexpr std::size_t kTurns = 7;
    bool is_whole = true;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(edition(Memory::gpu(0)));
        GraphPublisher publisher(world, slot);
        meet(world, "attached");
        for (std::size_t turn = 0; turn < kTurns; ++turn) publisher.graph->launch();
        meet(world, "seen");
        publisher.own.synchronize();
        const EdgeReport edge = edge_of(world, "news", Role::publishes);
        EXPECT_EQ(edge.counters.transfers, kTurns);
        EXPECT_EQ(edge.counters.device_copies, kTurns);
      } else {
        PublishedReader reader = world.attach_published(0, edition({}));
        meet(world, "attached");
        for (std::uint64_t seen = 0; seen < kTurns;) {
          const Arrival arrival = reader.view().value();
          EXPECT_GT(arrival.sequence(), seen);
          seen = arrival.sequence();
          is_whole = elements_of(world, arrival.tensor()) ==
                         counted(kInGraph, static_cast<float>(seen - 1)) &&
                     is_whole;
        }
        meet(world, "seen");
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return is_whole;
  }
  static void expect_told(const Status& status, Code code,
                          std::initializer_list<std::string> words) {
    EXPECT_TRUE(tells(status, code, words)) << status.text();
  }
};

}  // namespace weft::tests
