#include "p2p/transport/verbs/device/verbs_address.hpp"

#include <algorithm>
#include <tuple>

namespace weft::p2p::verbs {
namespace {

constexpr unsigned kByte = 8;

bool share_bits(const std::array<std::byte, 16>& a, const std::array<std::byte, 16>& b,
                unsigned bits) noexcept {
  bits = std::min<unsigned>(bits, kByte * static_cast<unsigned>(a.size()));
  const auto whole = static_cast<std::ptrdiff_t>(bits / kByte);
  if (!std::equal(a.begin(), a.begin() + whole, b.begin())) return false;
  if (bits % kByte == 0) return true;
  const auto at = static_cast<std::size_t>(whole);
  return std::to_integer<unsigned>(a[at] ^ b[at]) >> (kByte - bits % kByte) == 0;
}

bool of_one_network(const VerbsAddress& a, const VerbsAddress& b) noexcept {
  return share_bits(a.gid, b.gid, std::max(a.network_bits, b.network_bits));
}

}  // namespace

void VerbsPart::add(const VerbsAddress& another) noexcept {
  further[further_count++] = {.gid = another.gid,
                              .device = another.device,
                              .rate = another.rate,
                              .lid = another.lid,
                              .mtu = another.mtu,
                              .reads = another.reads,
                              .network_bits = another.network_bits};
}

std::vector<VerbsAddress> VerbsPart::ports() const {
  if (port.present == 0) return {};
  std::vector<VerbsAddress> all{port};
  for (std::size_t i = 0; i < std::min<std::size_t>(further_count, further.size()); ++i) {
    VerbsAddress& another = all.emplace_back(port);
    another.gid = further[i].gid;
    another.device = further[i].device;
    another.device.back() = '\0';
    another.rate = further[i].rate;
    another.lid = further[i].lid;
    another.mtu = further[i].mtu;
    another.reads = further[i].reads;
    another.network_bits = further[i].network_bits;
  }
  return all;
}

std::vector<PortPair> match_ports(const std::vector<VerbsAddress>& own,
                                  const std::vector<VerbsAddress>& peer, bool own_is_lower) {
  if (own.empty() || peer.empty()) return {};
  std::vector<PortPair> possible;
  for (std::size_t i = 0; i < own.size(); ++i)
    for (std::size_t j = 0; j < peer.size(); ++j)
      if (of_one_network(own[i], peer[j])) possible.push_back({i, j});
  // In an order that both ends have.
  std::ranges::sort(possible, {}, [own_is_lower](const PortPair& pair) {
    return std::tuple(std::max(pair.own, pair.peer), pair.own + pair.peer,
                      own_is_lower ? pair.own : pair.peer);
  });
  std::vector<PortPair> matched;
  for (const PortPair& pair : possible)
    if (std::ranges::none_of(matched, [&](const PortPair& other) {
          return other.own == pair.own || other.peer == pair.peer;
        }))
      matched.push_back(pair);
  if (matched.empty()) matched.push_back({0, 0});
  return matched;
}

}  // namespace weft::p2p::verbs
