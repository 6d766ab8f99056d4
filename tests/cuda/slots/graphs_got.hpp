// Shared by the tests of gets in captured graphs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {

inline PublishedSpec got_edition(std::uint32_t depth = 2, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {kInGraph}, .depth = depth, .flow = flow};
}

inline void publish_got(PublishedSlot& slot, float first) {
  std::ranges::copy(counted(kInGraph, first), slot.next().value().as<float>().begin());
  slot.publish().or_throw();
}

/// A graph that gets a version and reads it. The outcomes and the elements of all replays.
struct GraphGetter {
  GraphGetter(World& world, PublishedReader& reader, Deadline deadline = {},
              const std::function<void(Stream)>& before = {})
      : into(world.allocate(DType::f32, {kInGraph}, Memory::gpu(0))),
        own(world, 0, kInGraph, 1),
        graph(std::make_unique<OwnGraph>(own)) {
    if (before) before(own.get());
    EXPECT_OK_STATUS(reader.get(into, own.get(), deadline));
    const std::uint32_t* const outcome = reader.outcome();
    own.read(0, into);
    graph->call([this, outcome] {
      outcomes.push_back(*outcome);
      seen.push_back(own.elements(0));
      ++done;
    });
    graph->end();
  }
  std::uint32_t replay() {
    graph->launch();
    own.synchronize();
    return outcomes.back();
  }

  const Tensor into;
  OwnStream own;
  std::unique_ptr<OwnGraph> graph;
  std::vector<std::uint32_t> outcomes{};
  Seen seen{};
  std::atomic<std::size_t> done{0};
};

class GraphsGot : public OnStandInStreams {
 protected:
  /// A rank that publishes and gets.
  static void run(const std::function<void(World&, PublishedSlot&, PublishedReader&)>& body,
                  std::uint32_t depth = 2, Flow flow = Flow::credits) {
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(got_edition(depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      body(world, slot, reader);
    });
  }
  /// The elements that replays, or calls behind a stream, get of version after version.
  static Seen get(std::size_t turns, bool by_graphs, std::uint32_t depth, Flow flow) {
    Seen seen;
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader) {
          std::optional<GraphGetter> getter;
          if (by_graphs) getter.emplace(world, reader);
          const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
          OwnStream own(world, 0, kInGraph, 1);
          for (std::size_t turn = 0; turn < turns; ++turn) {
            // The get comes first, and waits, or the version does.
            const auto publish = [&] { publish_got(slot, static_cast<float>(turn)); };
            if (turn % 2 == 0) publish();
            if (getter) {
              getter->graph->launch();
            } else {
              EXPECT_OK_STATUS(reader.get(into, own.get()));
              own.read(0, into);
            }
            if (turn % 2 == 1) publish();
            (getter ? getter->own : own).synchronize();
            seen.push_back((getter ? getter->own : own).elements(0));
          }
          if (getter) {
            EXPECT_EQ(getter->outcomes, std::vector<std::uint32_t>(turns, 0));
          }
        },
        depth, flow);
    return seen;
  }
  static constexpr std::size_t kTurns = 6;
  /// Rank 1's replays ask for a version each, and get it; they are queued. Returns what they have
  /// read.
  static Seen exchange(Over fabric, std::uint64_t seed = 1, bool looks_steady = false) {
    Seen seen;
    const SlotSpec turn{.name = "turn", .shape = {1}, .depth = 2};
    const std::size_t turns = looks_steady ? 14 : kTurns;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(got_edition());
        Slot asked = world.expose(turn);
        meet(world, "captured");
        for (std::size_t version = 0; version < turns; ++version) {
          asked.wait().value();
          publish_got(slot, static_cast<float>(version));
        }
        meet(world, "got");
      } else {
        PublishedReader reader = world.attach_published(0, got_edition());
        RemoteSlot ask = world.attach(0, turn);
        const Tensor word = world.allocate(DType::f32, {1}, Memory::gpu(0));
        GraphGetter getter(world, reader, {}, [&](Stream stream) {
          EXPECT_OK_STATUS(ask.put(word, stream).wait_on(stream));
        });
        meet(world, "captured");
        if (looks_steady) {
          std::size_t done = 0;
          expect_steady(*stand_in::control(), moves_by_nic(fabric) ? 0 : 2, [&] {
            getter.graph->launch();
            ++done;
            EXPECT_TRUE(soon([&] { return getter.done == done; }));
          });
        } else {
          for (std::size_t i = 0; i < turns; ++i) getter.graph->launch();
        }
        getter.own.synchronize();
        EXPECT_EQ(getter.outcomes, std::vector<std::uint32_t>(turns, 0));
        seen = getter.seen;
        const EdgeReport edge = edge_of(world, "news", Role::views);
        EXPECT_EQ(edge.counters.transfers, turns);
        const bool by_nic = moves_by_nic(fabric);
        const std::string way = by_nic ? "gpudirect" : fabric == Over::shm ? "mapped" : "staged";
        EXPECT_EQ(edge.way, way) << edge.reason;
        EXPECT_EQ(edge.counters.staged_bytes, way == "staged" ? 4 * kInGraph * turns : 0);
        EXPECT_EQ(edge.counters.device_copies, by_nic ? 0 : turns);
        meet(world, "got");
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return seen;
  }
  static void expect_told(const Status& status, Code code,
                          std::initializer_list<std::string> words) {
    EXPECT_TRUE(tells(status, code, words)) << status.text();
  }
};

}  // namespace weft::tests
