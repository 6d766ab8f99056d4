// Fuzzes the messages of group members about the survivors, and of a shard's replicas about their
// state.
#include <array>
#include <vector>

#include "pslib/replication/replica_words.hpp"
#include "runtime/health/agreement_wire.hpp"
#include "tests/fuzz/input.hpp"

using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

/// One member hears random messages of the others. The member sends at most 4 messages per member
/// of its group and message heard.
void agree(Input& input) {
  using namespace weft::detail;
  const int size = 1 + input.take<std::uint8_t>() % 9;
  const int self = input.take<std::uint8_t>() % size;
  std::size_t said = 0;
  std::size_t heard = 1;
  Agreement agreement(size, self, [&](int to, const AgreementMessage& message) {
    require(to >= 0 && to < size && to != self);
    require(decode(encode(7, message), static_cast<std::size_t>(size)).has_value());
    ++said;
  });
  if (input.take<std::uint8_t>() % 2 == 0) agreement.begin();
  while (!input.rest().empty()) {
    const int from = input.take<std::uint8_t>() % size;
    const auto bytes = input.take<std::array<std::byte, 40>>();
    ++heard;
    if (const auto message = decode(bytes, static_cast<std::size_t>(size)))
      agreement.receive(from, *message);
    else
      agreement.gone(from, input.take<std::uint8_t>() % 2 == 0);
    const auto survivors = agreement.survivors();
    require(survivors.empty() || survivors.size() == static_cast<std::size_t>(size));
  }
  require(said <= heard * static_cast<std::size_t>(size) * 4);
}

void hold(Input& input) {
  using namespace weft::pslib;
  const std::size_t workers = input.take<std::uint8_t>() % 16;
  std::vector<std::uint64_t> words(ReplicaWords::count(workers));
  for (auto& word : words) word = input.take<std::uint64_t>();
  const ReplicaMessage message = ReplicaWords::load(words);
  require(message.record.pushes.size() <= workers);
  for (const RecordedPush& push : message.record.pushes) require(push.worker < workers);
  std::vector<std::uint64_t> again(words.size());
  ReplicaWords::store(message, again);
  require(ReplicaWords::load(again).record == message.record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0)
    agree(input);
  else
    hold(input);
  return 0;
}
