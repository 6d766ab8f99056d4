// Conformance bodies: the counters of both ends agree on the cost of a transfer, and the steady
// state costs nothing else.
#include <algorithm>
#include <array>
#include <vector>

#include "base/config.hpp"
#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/support/edges.hpp"

namespace weft::conformance {
namespace {

using tests::edge_counters;

/// Gives two numbers to the next rank; returns the previous rank's.
std::array<std::uint64_t, 2> pass_on(World& world, const std::string& of, std::uint64_t a,
                                     std::uint64_t b) {
  const Check check(world);
  RingEdge facts(world, {.name = "facts of " + of, .dtype = DType::i64, .shape = {2}});
  const auto tensor = world.allocate(DType::i64, {2});
  tensor.as<std::int64_t>()[0] = static_cast<std::int64_t>(a);
  tensor.as<std::int64_t>()[1] = static_cast<std::int64_t>(b);
  check.ok(facts.remote.put(tensor).wait(), "put");
  const auto arrival = check.ok(facts.slot.wait(), "wait");
  const auto got = values_of<std::int64_t>(world, arrival.tensor());
  return {static_cast<std::uint64_t>(got[0]), static_cast<std::uint64_t>(got[1])};
}

/// Messages and registrations of all paths: costs that no steady state has.
TransferCounters paths(const World& world) {
  TransferCounters sum;
  for (const PathReport& path : world.report().paths) sum += path.counters;
  return sum;
}

/// Work requests of a put: one, unless WEFT_IB_MAX_MESSAGE cuts it.
std::uint64_t requests_of(std::uint64_t bytes) {
  const std::uint64_t most =
      Config::read().size(Setting::ib_max_message).value_or(~std::uint64_t{0});
  return (bytes - 1) / most + 1;
}

/// Runs `step` a few times unmeasured, then `count` times, the ranks in step; gives the cost.
template <typename Step>
std::array<TransferCounters, 3> measure(World& world, Meeting& meeting, const std::string& slot,
                                        std::uint64_t count, Role from, Role to, Step&& step) {
  for (int i = 0; i < 8; ++i) {
    step();
    meeting.wait();
  }
  const auto now = [&] {
    return std::array{edge_counters(world, slot, from), edge_counters(world, slot, to),
                      paths(world)};
  };
  const auto before = now();
  meeting.wait();
  for (std::uint64_t i = 0; i < count; ++i) {
    step();
    meeting.wait();
  }
  auto cost = now();
  meeting.wait();  // tearing down costs messages
  for (std::size_t i = 0; i < cost.size(); ++i) cost[i] = cost[i] - before[i];
  return cost;
}

void expect_nothing_else(const Check& check, const TransferCounters& cost) {
  check.equal(cost.bytes_copied, 0U, "bytes copied in the steady state");
  check.equal(cost.control_messages, 0U, "control messages in the steady state");
  check.equal(cost.registrations, 0U, "registrations in the steady state");
}

void costs_one_request_a_transfer(World& world) {
  constexpr std::uint64_t kTransfers = 24;
  const Check check(world);
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 4U, 7U}) {
    for (const std::int64_t elements : {5, 5000}) {
      const SlotSpec spec{
          .name = "steady, depth " + std::to_string(depth) + ", " + std::to_string(elements),
          .dtype = DType::f32,
          .shape = {elements},
          .depth = depth};
      RingEdge edge(world, spec);
      const auto source = world.allocate(spec.dtype, spec.shape);
      const auto cost =
          measure(world, meeting, spec.name, kTransfers, Role::puts, Role::receives, [&] {
            check.ok(edge.remote.put(source).wait(), "put");
            check.ok(edge.slot.wait(), "wait").release();
          });
      for (const TransferCounters& some : cost) expect_nothing_else(check, some);
      const std::uint64_t bytes = kTransfers * static_cast<std::uint64_t>(elements) * 4;
      check.equal(cost[0].transfers, kTransfers, "transfers of the writer");
      check.equal(cost[1].transfers, kTransfers, "transfers of the owner");
      check.equal(cost[0].bytes_moved, bytes, "bytes moved by the writer");
      check.equal(cost[1].bytes_moved, bytes, "bytes moved by the owner");
      check.equal(cost[0].work_requests, kTransfers * requests_of(bytes / kTransfers),
                  "work requests of the writer");
      check.equal(cost[1].work_requests, 0U, "work requests of the owner");
      const std::uint64_t due = (depth + 1) / 2;
      check(cost[1].credit_writes <= (kTransfers + due - 1) / due,
            std::to_string(cost[1].credit_writes) + " credit writes for " +
                std::to_string(kTransfers) + " transfers of depth " + std::to_string(depth));
      check(cost[1].credit_writes > 0, "no credit was ever written");
    }
  }
}

void costs_one_write_and_one_read_if_dynamic(World& world) {
  constexpr std::uint64_t kTransfers = 24;
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "steady",
                      .dtype = DType::f32,
                      .shape = {0, 0},
                      .depth = 2,
                      .placement = Placement::dynamic};
  RingEdge edge(world, spec);
  const auto source = world.allocate(spec.dtype, {50, 60});
  const auto cost = measure(world, meeting, spec.name, kTransfers, Role::puts, Role::receives, [&] {
    auto request = edge.remote.put(source);
    check.ok(edge.slot.wait(), "wait").release();
    check.ok(request.wait(), "put");
  });
  for (const TransferCounters& some : cost) expect_nothing_else(check, some);
  check.equal(cost[0].work_requests, kTransfers, "writes of the writer");
  check.equal(cost[1].work_requests, kTransfers, "reads of the owner");
  check.equal(cost[0].bytes_moved, kTransfers * 12'000, "bytes moved by the writer");
  check.equal(cost[1].bytes_moved, kTransfers * 12'000, "bytes moved by the owner");
  check(cost[1].credit_writes <= kTransfers, "more than a credit write for each read");
}

void costs_no_message_to_publish(World& world) {
  constexpr std::uint64_t kVersions = 24;
  const Check check(world);
  Meeting meeting(world);
  const PublishedSpec spec{.name = "steady", .shape = {3000}, .depth = 2};
  PublishedEdge edge(world, spec);
  const auto into = world.allocate(spec.dtype, spec.shape);
  const auto cost =
      measure(world, meeting, spec.name, kVersions, Role::publishes, Role::views, [&] {
        check.ok(edge.slot.next().status(), "next");
        check.ok(edge.slot.publish(), "publish");
        check.ok(edge.reader.get(into), "get");
      });
  for (const TransferCounters& some : cost) expect_nothing_else(check, some);
  check.equal(cost[0].transfers, kVersions, "versions published");
  check.equal(cost[1].transfers, kVersions, "versions got");
  check.equal(cost[1].work_requests, kVersions, "reads");
  check.equal(cost[1].bytes_moved, kVersions * 12'000, "bytes moved");
}

void counts_alike_at_both_ends(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge fixed(world, {.name = "fixed", .dtype = DType::u8, .shape = {333}, .depth = 3});
  RingEdge dynamic(world, {.name = "dynamic",
                           .dtype = DType::u8,
                           .shape = {0},
                           .depth = 3,
                           .placement = Placement::dynamic});
  std::vector<std::uint8_t> own(1000);
  const int puts = 5 + world.rank() % 3;
  std::vector<Request> requests;
  for (int n = 0; n < puts; ++n) {
    const bool outside = n % 2 == 0;
    const auto tensor = [&](std::int64_t bytes) {
      return outside ? Tensor::wrap(own.data(), DType::u8, {bytes})
                     : world.allocate(DType::u8, {bytes});
    };
    requests.push_back(fixed.remote.put(tensor(333)));
    requests.push_back(dynamic.remote.put(tensor(100 * n)));
  }
  const int expected = 5 + previous_of(world) % 3;
  for (int n = 0; n < expected; ++n) {
    check.ok(fixed.slot.wait(), "wait").release();
    check.ok(dynamic.slot.wait(), "wait").release();
  }
  // A put is counted before its request completes, but maybe after its tensor has arrived.
  for (Request& request : requests) check.ok(request.wait(), "put");
  meeting.wait();
  for (const char* slot : {"fixed", "dynamic"}) {
    const auto mine = edge_counters(world, slot, Role::puts);
    const auto [transfers, bytes] = pass_on(world, slot, mine.transfers, mine.bytes_moved);
    const auto received = edge_counters(world, slot, Role::receives);
    check.equal(received.transfers, transfers, std::string(slot) + ": transfers at both ends");
    check.equal(received.bytes_moved, bytes, std::string(slot) + ": bytes at both ends");
    check.equal(transfers, static_cast<std::uint64_t>(expected), std::string(slot) + ": transfers");
    meeting.wait();
  }
}

}  // namespace

Bodies counter_bodies() {
  // Of tensors on GPUs tests/cuda counts what they cost.
  return {{.name = "costs_one_request_a_transfer",
           .run = costs_one_request_a_transfer,
           .is_of_host_memory = true},
          {.name = "costs_one_write_and_one_read_if_dynamic",
           .run = costs_one_write_and_one_read_if_dynamic,
           .is_of_host_memory = true},
          {.name = "costs_no_message_to_publish",
           .run = costs_no_message_to_publish,
           .is_of_host_memory = true},
          {"counts_alike_at_both_ends", counts_alike_at_both_ends}};
}

}  // namespace weft::conformance
