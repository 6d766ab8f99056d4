// Messages from all ranks to all ranks, small ones and offered ones, step after step.
#include <vector>

#include "tests/faults/kill_random_rank/fault_worker.hpp"
#include "weft/message.hpp"

namespace weft::tests {

Status exchange_messages(World& world, Deadline end) {
  Messages messages(world);
  std::vector<Tensor> out;
  std::vector<Tensor> in;
  for (int rank = 0; rank < world.size(); ++rank)
    for (const std::int64_t bytes : {64, 2000, 200'000}) {
      out.push_back(world.allocate(DType::u8, {bytes}));
      in.push_back(world.allocate(DType::u8, {bytes}));
    }
  std::vector<MessageRequest> requests;
  while (!end.passed()) {
    requests.clear();
    for (std::size_t i = 0; i < in.size(); ++i)
      requests.push_back(messages.irecv(static_cast<int>(i / 3), i % 3, in[i]));
    for (std::size_t i = 0; i < out.size(); ++i)
      requests.push_back(messages.isend(static_cast<int>(i / 3), i % 3, out[i]));
    for (MessageRequest& request : requests)
      if (const auto ended = request.wait(); !ended.ok()) return ended.status();
  }
  return {};
}

}  // namespace weft::tests
