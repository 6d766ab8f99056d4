#include "runtime/world/descriptor_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/fail.hpp"
#include "base/os/descriptor_limit.hpp"
#include "p2p/transport/address/fabric_kind.hpp"
#include "p2p/transport/address/ip_address.hpp"

namespace weft::detail {
namespace {

constexpr int kBase = kDescriptors - kDescriptorsOfEveryProcess - kDescriptorsOfTheLauncher;
/// TCP's epoll, its timer and a second listener; an RDMA device's descriptors.
constexpr int kOfTcp = 4;
constexpr int kOfADevice = 6;
constexpr int kMostPorts = 4;
constexpr int kMostTcpRails = static_cast<int>(p2p::ConnectorAddress::kMaxIps);

/// With connections to all ranks, though they may connect on first use. Several networks are called
/// at once, and until one answers by all addresses of the peer, IPv4 and IPv6 of one network too.
std::size_t needed_by_several_rails(const Config& config, const RankCounts& ranks) {
  return descriptors_to_open(config.with(Setting::rails, std::to_string(kMostTcpRails))
                                 .with(Setting::mesh_eager, std::to_string(ranks.all)),
                             ranks);
}

}  // namespace

std::size_t descriptors_to_open(const Config& config, const RankCounts& ranks) {
  const auto only = p2p::fabric_kind(config.text(Setting::fabric));
  // Above WEFT_MESH_EAGER ranks a pair connects on first use.
  const bool is_eager = ranks.all <= *config.integer(Setting::mesh_eager);
  const auto rails = config.integer(Setting::rails);
  const auto by_tcp = [&](int peers) {
    return kOfTcp + (1 + static_cast<int>(rails.value_or(1))) * (is_eager ? peers : 1);
  };
  int count = kBase;
  if (only == p2p::FabricKind::tcp) {
    count += by_tcp(ranks.all);
  } else if (only == p2p::FabricKind::verbs) {
    const int ports = std::min(static_cast<int>(rails.value_or(kMostPorts)), kMostPorts);
    count += kOfADevice * ports + (is_eager ? ranks.all : 1);
  } else {
    // Other hosts are perhaps reached by RDMA, which takes less.
    count += kDescriptorsPerRank * ranks.local;
    if (ranks.all > ranks.local) count += by_tcp(ranks.all - ranks.local);
  }
  return static_cast<std::size_t>(count);
}

int tcp_rails_within(const Config& config, const RankCounts& ranks, std::size_t free) {
  return needed_by_several_rails(config, ranks) <= free ? kMostTcpRails : 1;
}

int tcp_rails_within_limit(const Config& config, const RankCounts& ranks) {
  return tcp_rails_within(config, ranks,
                          os::free_descriptors(needed_by_several_rails(config, ranks)));
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
