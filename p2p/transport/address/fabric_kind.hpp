// Which fabrics there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::p2p {

/// One per way of reaching ranks. The values travel (RankAddress) and never change.
enum class FabricKind : std::uint8_t {
  shm = 1,
  verbs = 2,
  tcp = 3,
  sim = 4,      ///< simulated time, for tests
  loopback = 5  ///< within one process, for tests
};

constexpr std::string_view name(FabricKind kind) noexcept {
  switch (kind) {
    case FabricKind::shm:
      return "shm";
    case FabricKind::verbs:
      return "verbs";
    case FabricKind::tcp:
      return "tcp";
    case FabricKind::sim:
      return "sim";
    case FabricKind::loopback:
      return "loopback";
  }
  return "?";
}

/// The kind with this name(), as settings and reports have it.
constexpr std::optional<FabricKind> fabric_kind(std::string_view text) noexcept {
  for (const FabricKind kind :
       {FabricKind::shm, FabricKind::verbs, FabricKind::tcp, FabricKind::sim, FabricKind::loopback})
    if (name(kind) == text) return kind;
  return std::nullopt;
}

}  // namespace weft::p2p
