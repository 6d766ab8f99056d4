// Fuzzes the words that other ranks send: about a collective call, from the first rank of a group
// about the choice of algorithm, and from a worker about the rows that the worker asks a server
// for.
#include <limits>
#include <memory>
#include <vector>

#include "p2p/transport/control_message.hpp"
#include "pslib/sparse/request.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/collective_messages.hpp"
#include "tests/fuzz/input.hpp"

using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

using namespace weft::detail;

/// Two hosts, or three; a host has up to four ranks.
Hosts some_hosts(Input& input) {
  Hosts hosts(2 + input.take<std::uint8_t>() % 2);
  int rank = 0;
  for (auto& host : hosts)
    for (int last = rank + input.take<std::uint8_t>() % 4; rank <= last; ++rank)
      host.push_back(rank);
  return hosts;
}

void choose_by(Input& input) {
  constexpr std::array kKinds{
      weft::CollectiveKind::broadcast,      weft::CollectiveKind::reduce,
      weft::CollectiveKind::all_reduce,     weft::CollectiveKind::all_gather,
      weft::CollectiveKind::reduce_scatter, weft::CollectiveKind::scan};
  const Hosts hosts = some_hosts(input);
  const int ranks = hosts.back().back() + 1;
  Choosing choosing{.element = 4, .wide_element = 4};
  choosing.task.kind = kKinds[input.take<std::uint8_t>() % kKinds.size()];
  choosing.task.count = input.take<std::uint16_t>();
  choosing.task.root = input.take<std::uint8_t>() % ranks;
  for (int rank = 0; rank <= ranks; ++rank)
    choosing.task.offsets.push_back(choosing.task.count * rank / ranks);
  const auto message = input.take<CollectiveMessage>();
  (void)message.signature.text();
  (void)message.text.get();
  if (!message.choices.makes_sense()) return;
  const weft::Algorithm chosen = choose(choosing, hosts, message.choices);
  require(chosen != weft::Algorithm::automatic);
  require(expected_time(chosen, choosing, hosts, message.choices) >= 0);
}

void take_request(Input& input) {
  using namespace weft::pslib;
  const std::size_t rows = input.take<std::uint16_t>();
  const std::size_t row_bytes = 1 + input.take<std::uint8_t>();
  const auto head = input.take<RequestHead>();
  if (!makes_sense(head, rows)) return;
  // The memory is never read.
  const std::size_t size = request_bytes(rows, rows, rows * row_bytes);
  require(request_bytes(head.pushed, head.looked_up, head.pushed * row_bytes) <= size);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(size);
  const RequestParts<const std::byte> parts(memory.get(), head.pushed, head.looked_up);
  const auto ends_within = [&](const void* at, std::size_t bytes) {
    const auto first = static_cast<std::size_t>(static_cast<const std::byte*>(at) - memory.get());
    require(first <= size && bytes <= size - first);
  };
  ends_within(parts.pushed(), head.pushed * sizeof(std::uint64_t));
  ends_within(parts.looked_up(), head.looked_up * sizeof(std::uint64_t));
  ends_within(parts.gradients(), head.pushed * row_bytes);
  require(answer_bytes(head.looked_up * row_bytes) <= answer_bytes(rows * row_bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0)
    choose_by(input);
  else
    take_request(input);
  return 0;
}
