// Exchanges addresses between two processes that mpirun started.
#pragma once

#include <string>

namespace weft::bench {

/// This process's PMIx client; at most one per process. Throws std::runtime_error if there is no
/// launcher or the launcher refuses.
class PmixExchange {
 public:
  PmixExchange();
  ~PmixExchange();
  PmixExchange(const PmixExchange&) = delete;
  PmixExchange& operator=(const PmixExchange&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Broadcasts rank `rank`'s `word` and returns it. Collective, once per `rank`.
  std::string hear_from(int rank, const std::string& word);
  /// A barrier over all ranks.
  void meet();

 private:
  int rank_ = 0;
  int size_ = 0;
};

/// This host's name and an IPv4 address that other hosts may reach: "name 10.0.0.1".
std::string own_address();
/// The address to use for the other rank's own_address(): loopback if it is on this host.
std::string reachable(const std::string& said);

}  // namespace weft::bench
