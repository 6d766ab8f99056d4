#include <algorithm>
#include <cstdio>
#include <weft/weft.hpp>

#include "tests/guide/samples.hpp"

// [messages]
void messages(weft::World& world) {
  constexpr std::uint64_t kResult = 7;  // a tag
  constexpr std::uint64_t kNext = 8;
  weft::Messages messages(world);
  const weft::Tensor mine = world.allocate(weft::DType::i64, {3});
  const weft::Tensor theirs = world.allocate(weft::DType::i64, {3});
  std::ranges::fill(mine.as<std::int64_t>(), world.rank());

  // All ranks to rank 0, which takes them as they come.
  if (world.rank() != 0) {
    messages.send(0, kResult, mine).or_throw();
  } else {
    std::int64_t sum = 0;
    for (int i = 1; i < world.size(); ++i) {
      const weft::MessageInfo info = messages.recv(weft::kAnySource, kResult, theirs).value();
      if (info.bytes == theirs.bytes()) sum += theirs.as<std::int64_t>()[2];
    }
    std::printf("the others' numbers sum up to %ld\n", sum);
  }

  // In a ring, each to the next rank at once.
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  weft::MessageRequest requests[] = {messages.irecv(last, kNext, theirs),
                                     messages.isend(next, kNext, mine)};
  messages.wait_all(requests).or_throw();
  std::printf("rank %d got %ld\n", world.rank(), theirs.as<std::int64_t>()[0]);
}
// [end]
