#include "benchmarks/workloads/bare_replay.hpp"

#include <cstring>

#include "benchmarks/harness/payload.hpp"

namespace weft::bench {

BareReplay::BareReplay(World& world, const RunOptions& options, const std::string& name,
                       std::size_t bytes, bool pulls)
    : count_(bytes / sizeof(float)),
      half_(count_ / 2),
      upper_(world.rank() == 1),
      bare_(world, options, "bare." + name, bytes + 2 * count_ + 64),
      own_(pulls ? count_ : 0) {}

void BareReplay::step() {
  auto* const gradient = reinterpret_cast<float*>(bare_.data());
  const auto* const theirs = reinterpret_cast<const float*>(bare_.their_data());
  float* const parameters = gradient + count_;
  const std::size_t first = upper_ ? half_ : 0;
  const std::size_t mine = upper_ ? count_ - half_ : half_;
  fill_gradient(gradient, count_, ++steps_ + (upper_ ? 1 : 0));
  meet();
  apply_gradients(parameters, gradient + first, theirs + first, mine);
  meet();
  read(parameters, first, mine);
  read(theirs + count_, upper_ ? 0 : half_, count_ - mine);
}

void BareReplay::meet() {
  raise_to(bare_.flags().announced, ++meetings_);
  await(bare_.their_flags().announced, meetings_, bare_.idle());
}

void BareReplay::read(const float* from, std::size_t first, std::size_t count) {
  if (!own_.empty()) {
    std::memcpy(own_.data() + first, from, count * sizeof(float));
    from = own_.data() + first;
  }
  touch(from, count * sizeof(float));
}

}  // namespace weft::bench
