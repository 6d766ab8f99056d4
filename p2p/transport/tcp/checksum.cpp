#include "p2p/transport/tcp/checksum.hpp"

#include <xxhash.h>

#include <memory>

namespace weft::p2p::tcp {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

/// The checksum of a payload does not depend on the pieces that it lies in.
std::uint64_t of_pieces(std::span<const iovec> parts, std::uint64_t seed) noexcept {
  static thread_local const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (!state) return 0;  // no memory: the peer will not believe it, which is the safe side
  XXH3_64bits_reset_withSeed(state.get(), seed);
  for (const iovec& part : parts) XXH3_64bits_update(state.get(), part.iov_base, part.iov_len);
  return XXH3_64bits_digest(state.get());
}

}  // namespace

std::uint64_t checksum(Head head, std::span<const iovec> parts) noexcept {
  head.checksum = 0;
  head.head_sum = 0;
  const std::uint64_t seed = XXH3_64bits(&head, sizeof head);
  std::uint64_t sum = seed;
  if (parts.size() == 1)
    sum = XXH3_64bits_withSeed(parts[0].iov_base, parts[0].iov_len, seed);
  else if (!parts.empty())
    sum = of_pieces(parts, seed);
  return sum == 0 ? 1 : sum;
}

std::uint32_t head_sum(Head head) noexcept {
  head.head_sum = 0;
  const auto sum = static_cast<std::uint32_t>(XXH3_64bits(&head, sizeof head));
  return sum == 0 ? 1 : sum;
}

}  // namespace weft::p2p::tcp
