#include "runtime/world/descriptor_need.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/os/descriptor_limit.hpp"
#include "p2p/transport/address/fabric_kind.hpp"

namespace weft::detail {
namespace {

constexpr int kBase = kDescriptors - kDescriptorsOfEveryProcess - kDescriptorsOfTheLauncher;
/// TCP's epoll, its timer and a second listener; an RDMA device's descriptors.
constexpr int kOfTcp = 4;
constexpr int kOfADevice = 6;

}  // namespace

std::size_t descriptors_to_open(const Config& config, const RankCounts& ranks) {
  const auto only = p2p::fabric_kind(config.text(Setting::fabric));
  // Above WEFT_MESH_EAGER ranks a pair connects on first use.
  const bool is_eager = ranks.all <= *config.integer(Setting::mesh_eager);
  int count = kBase;
  if (only == p2p::FabricKind::tcp) {
    const int rails = static_cast<int>(config.integer(Setting::rails).value_or(1));
    count += kOfTcp + (1 + rails) * (is_eager ? ranks.all : 1);
  } else if (only == p2p::FabricKind::verbs) {
    const auto ports = config.integer(Setting::rails).value_or(1);
    count += kOfADevice * static_cast<int>(ports) + (is_eager ? ranks.all : 1);
  } else {
    count += kDescriptorsPerRank * ranks.local + (is_eager ? ranks.all - ranks.local : 0);
  }
  return static_cast<std::size_t>(count);
}

void require_descriptors(const Config& config, const RankCounts& ranks, int passing) {
  const std::size_t needed = descriptors_to_open(config, ranks);
  const std::size_t free = os::free_descriptors(needed) + static_cast<std::size_t>(passing);
  if (free >= needed) return;
  const std::size_t limit = os::descriptor_limit();
  throw_error(
      Code::exhausted, "join",
      fmt::format(
          "a rank of {} ({} on its host) opens about {} file descriptors, and {} are free of "
          "the limit of {}",
          ranks.all, ranks.local, needed, free, limit),
      fmt::format("raise the limit of open files (ulimit -n) to {} or more",
                  limit + needed - free));
}

}  // namespace weft::detail
