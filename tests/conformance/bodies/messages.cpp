// Messages: every size arrives whole, in order, by source and tag; what is not received is bounded.
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"
#include "weft/message.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;
using tests::pattern_of;

Tensor bytes_of(World& world, std::int64_t bytes) {
  return allocate_source(world, DType::u8, {bytes});
}

Tensor filled(World& world, std::int64_t bytes, std::uint64_t n) {
  Tensor tensor = bytes_of(world, bytes);
  fill(world, tensor, pattern_of(world.rank(), 9, n));
  return tensor;
}

void sends_every_size(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  std::uint64_t n = 0;
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{8}, std::int64_t{32}, std::int64_t{96},
        std::int64_t{97}, std::int64_t{4096}, std::int64_t{4097}, settings().large})
    for (int again = 0; again < 3; ++again) {
      const Tensor out = filled(world, bytes, ++n);
      const Tensor in = bytes_of(world, bytes + 8);
      const MessageInfo got = check.ok(
          messages.sendrecv(next_of(world), n, out, previous_of(world), n, in), "sendrecv");
      check.equal(got.source, previous_of(world), "source");
      check.equal(got.tag, n, "tag");
      check.equal(got.bytes, static_cast<std::size_t>(bytes), "bytes");
      check.holds(in.part(0, {bytes}), pattern_of(previous_of(world), 9, n), "message");
    }
  meeting.wait();
}

/// Neither end lies in the world's memory.
void sends_from_and_into_memory_of_the_users(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  for (const std::int64_t bytes : {40, 2000, 60'000}) {
    std::vector<std::uint8_t> from(static_cast<std::size_t>(bytes));
    std::vector<std::uint8_t> to(from.size());
    const Tensor out = Tensor::wrap(from.data(), DType::u8, {bytes});
    const Tensor in = Tensor::wrap(to.data(), DType::u8, {bytes});
    fill(world, out, pattern_of(world.rank(), 8, from.size()));
    check.ok(messages.sendrecv(next_of(world), 1, out, previous_of(world), 1, in), "sendrecv");
    check.holds(in, pattern_of(previous_of(world), 8, from.size()), "message");
  }
  meeting.wait();
}

/// Received in another order than sent: a tag's own order stays.
void keeps_the_order_of_each_tag(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  std::vector<Tensor> sources;
  std::vector<MessageRequest> sending;
  for (std::uint64_t n = 0; n < 30; ++n) {
    // Some go through the ring, some are offered.
    sources.push_back(filled(world, n % 3 == 2 ? 5000 : 50, n));
    sending.push_back(messages.isend(next_of(world), n % 5, sources.back()));
  }
  const Tensor in = bytes_of(world, 5000);
  for (std::uint64_t tag = 5; tag-- > 0;)
    for (std::uint64_t n = tag; n < 30; n += 5) {
      const MessageInfo got = check.ok(messages.recv(previous_of(world), tag, in), "recv");
      check.equal(got.tag, tag, "tag");
      check.holds(in.part(0, {static_cast<std::int64_t>(got.bytes)}),
                  pattern_of(previous_of(world), 9, n), "message");
    }
  check.ok(messages.wait_all(sending), "sends");
  meeting.wait();
}

/// A message goes to the receive that was posted first among those that take it.
void gives_a_message_to_the_first_receive(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  std::vector<Tensor> into;
  std::vector<MessageRequest> receiving;
  const Tag odd{1, 1};
  for (const Tag tag : {Tag(6), odd, kAnyTag, Tag(6)}) {
    into.push_back(bytes_of(world, 100));
    receiving.push_back(messages.irecv(previous_of(world), tag, into.back()));
  }
  meeting.wait();
  for (const std::uint64_t tag :
       {std::uint64_t{4}, std::uint64_t{6}, std::uint64_t{9}, std::uint64_t{6}})
    check.ok(messages.send(next_of(world), tag, filled(world, 100, tag)), "send");
  check.ok(messages.wait_all(receiving), "receives");
  const std::uint64_t tags[] = {6, 9, 4, 6};
  for (std::size_t i = 0; i < 4; ++i) {
    check.equal(check.ok(receiving[i].wait(), "wait").tag, tags[i], "tag of a receive");
    check.holds(into[i], pattern_of(previous_of(world), 9, tags[i]), "message");
  }
  meeting.wait();
}

void receives_from_any_rank(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  std::vector<Tensor> sources;
  std::vector<MessageRequest> sending;
  for (int to = 0; to < world.size(); ++to)
    for (std::uint64_t n = 0; n < 4; ++n) {
      sources.push_back(filled(world, n == 3 ? 6000 : 64, n));
      sending.push_back(messages.isend(to, n, sources.back()));
    }
  std::vector<std::uint64_t> next(static_cast<std::size_t>(world.size()), 0);
  const Tensor in = bytes_of(world, 6000);
  for (int i = 0; i < 4 * world.size(); ++i) {
    const MessageInfo got = check.ok(messages.recv(kAnySource, kAnyTag, in), "recv");
    check.equal(got.tag, next[static_cast<std::size_t>(got.source)]++, "order of one source");
    check.holds(in.part(0, {static_cast<std::int64_t>(got.bytes)}),
                pattern_of(got.source, 9, got.tag), "message");
  }
  check.ok(messages.wait_all(sending), "sends");
  meeting.wait();
}

void tells_of_a_message_before_it_is_received(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  check(!messages.iprobe(previous_of(world), kAnyTag), "nothing was sent");
  meeting.wait();
  const Tensor out = filled(world, 9000, 1);
  MessageRequest sending = messages.isend(next_of(world), 5, out);
  const MessageInfo seen = check.ok(messages.probe(kAnySource, Tag(5)), "probe");
  check.equal(seen.bytes, 9000U, "bytes");
  check(!messages.iprobe(previous_of(world), Tag(6)), "another tag");
  const auto too_small = messages.recv(previous_of(world), 5, bytes_of(world, 100));
  check.says(check.ends(too_small.status(), Code::mismatch, "too small a tensor").message, "9000");
  check.ok(sending.wait(), "the send is over all the same");
  check(!messages.iprobe(previous_of(world), kAnyTag), "it is gone");
  meeting.wait();
}

/// More messages than a ring holds: the rest waits at the sender, and all arrive.
void holds_up_who_sends_more_than_is_received(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  constexpr std::uint64_t kMany = 300;
  std::vector<Tensor> sources;
  std::vector<MessageRequest> sending;
  for (std::uint64_t n = 0; n < kMany; ++n) {
    sources.push_back(filled(world, n % 10 == 0 ? 1000 : 24, n));
    sending.push_back(messages.isend(next_of(world), 1, sources.back()));
  }
  check(!sending.back().test(), "more than a ring holds were sent");
  const auto late = check.ends(sending.back().wait(Deadline::after(milliseconds(5))).status(),
                               Code::timeout, "a send without room");
  check.equal(late.peer, next_of(world), "the rank named");
  meeting.wait();
  const Tensor in = bytes_of(world, 1000);
  for (std::uint64_t n = 0; n < kMany; ++n) {
    const MessageInfo got = check.ok(messages.recv(previous_of(world), 1, in), "recv");
    check.holds(in.part(0, {static_cast<std::int64_t>(got.bytes)}),
                pattern_of(previous_of(world), 9, n), "message");
  }
  check.ok(messages.wait_all(sending), "sends");
  meeting.wait();
}

void cancels_what_has_not_begun(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  const Tensor first = bytes_of(world, 16);
  const Tensor second = bytes_of(world, 16);
  MessageRequest cancelled = messages.irecv(previous_of(world), 3, first);
  MessageRequest stays = messages.irecv(previous_of(world), 3, second);
  check.ends(cancelled.cancel(), Code::cancelled, "cancel");
  check.ends(cancelled.wait().status(), Code::cancelled, "a cancelled receive");
  check.ends(messages.recv(previous_of(world), 4, first, Deadline::after(milliseconds(2))).status(),
             Code::timeout, "nothing of that tag");
  meeting.wait();
  const Tensor large = filled(world, 5000, 2);
  check.ok(messages.send(next_of(world), 3, filled(world, 16, 1)), "send");
  MessageRequest offered = messages.isend(next_of(world), 4, large);
  check.ok(stays.wait(), "the receive that was not cancelled");
  check.holds(second, pattern_of(previous_of(world), 9, 1), "message");
  check.ok(messages.probe(previous_of(world), 4), "probe");
  meeting.wait();
  check.ends(offered.cancel(), Code::bad_argument, "the receiver knows of it");
  meeting.wait();
  const Tensor in = bytes_of(world, 5000);
  check.ok(messages.recv(previous_of(world), 4, in), "recv");
  check.ok(offered.wait(), "send");
  meeting.wait();
}

/// Once two ranks have met, a message costs one work request, and no control message.
void costs_what_it_says(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  const Tensor small = filled(world, 64, 1);
  const Tensor large = filled(world, 50'000, 2);
  const Tensor in = bytes_of(world, 50'000);
  const auto exchange = [&] {
    for (const Tensor* out : {&small, &large})
      check.ok(messages.sendrecv(next_of(world), 1, *out, previous_of(world), 1, in), "sendrecv");
  };
  const auto cost = [&](Role role, int peer) {
    for (const EdgeReport& edge : world.report().edges)
      if (edge.slot == "messages" && edge.role == role && edge.peer == peer) return edge.counters;
    return TransferCounters{};
  };
  const auto control = [&] {
    std::uint64_t sum = 0;
    for (const PathReport& path : world.report().paths) sum += path.counters.control_messages;
    return sum;
  };
  exchange();
  meeting.wait();
  const auto sent = cost(Role::puts, next_of(world));
  const auto received = cost(Role::receives, previous_of(world));
  const auto said = control();
  for (int i = 0; i < 10; ++i) exchange();
  const auto sending = cost(Role::puts, next_of(world)) - sent;
  const auto receiving = cost(Role::receives, previous_of(world)) - received;
  check.equal(sending.transfers, 20U, "messages sent");
  check.equal(sending.work_requests, 20U, "work requests of the sender");
  check(sending.bytes_copied <= 640, "more was staged than goes into the ring");
  check.equal(receiving.transfers, 20U, "messages received");
  check.equal(receiving.work_requests, 10U, "gets");
  check.equal(receiving.bytes_copied, 640U, "bytes copied out of the ring");
  check.equal(control(), said, "control messages");
  meeting.wait();
}

/// In a cell, in a long buffer, and read from the sender's memory.
void compares_element_types(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Messages messages(world);
  for (const std::int64_t elements : {2, 200, 20'000}) {
    const Tensor floats = allocate_source(world, DType::f32, {elements});
    fill(world, floats, pattern_of(world.rank(), 7, 1));
    const Tensor numbers = allocate_source(world, DType::i64, {elements});
    const Tensor bytes = bytes_of(world, 4 * elements);
    std::vector<MessageRequest> sent;
    for (std::uint64_t tag = 0; tag < 4; ++tag)
      sent.push_back(messages.isend(next_of(world), tag, floats));
    const int from = previous_of(world);
    check(check.ok(messages.probe(from, 0), "probe").dtype == DType::f32, "the type probed");
    for (int posted = 0; posted < 2; ++posted) {
      MessageRequest request;
      if (posted == 1) request = messages.irecv(from, 1, numbers);
      const ErrorDetail unlike = check.ends(
          posted == 1 ? request.wait().status() : messages.recv(from, 0, numbers).status(),
          Code::mismatch, "f32 as i64");
      for (const char* words : {"f32", "i64", "dropped"}) check.says(unlike.message, words);
    }
    check(check.ok(messages.recv(from, 2, bytes), "recv").dtype == DType::f32, "the type");
    check.holds(bytes, pattern_of(from, 7, 1), "the bytes of floats");
    const Tensor into = allocate_source(world, DType::f32, {elements});
    check.ok(messages.recv(from, 3, into), "recv");
    check.holds(into, pattern_of(from, 7, 1), "floats");
    check.ok(messages.wait_all(sent), "what was dropped was sent");
    meeting.wait();
  }
}

}  // namespace

Bodies message_bodies() {
  return {{"sends_every_size", sends_every_size},
          {"sends_from_and_into_memory_of_the_users", sends_from_and_into_memory_of_the_users},
          {"keeps_the_order_of_each_tag", keeps_the_order_of_each_tag},
          {"gives_a_message_to_the_first_receive", gives_a_message_to_the_first_receive},
          {"receives_from_any_rank", receives_from_any_rank},
          {"tells_of_a_message_before_it_is_received", tells_of_a_message_before_it_is_received},
          {"holds_up_who_sends_more_than_is_received", holds_up_who_sends_more_than_is_received},
          {"cancels_what_has_not_begun", cancels_what_has_not_begun},
          {.name = "costs_what_it_says", .run = costs_what_it_says, .is_of_host_memory = true},
          {"compares_element_types", compares_element_types}};
}

}  // namespace weft::conformance
