// How two processes under mpirun tell each other where one of them listens.
#pragma once

#include <string>

namespace weft::bench {

/// This process among those that mpirun started. One of a kind; throws std::runtime_error where
/// there is no launcher, or it says no.
class PmixExchange {
 public:
  PmixExchange();
  ~PmixExchange();
  PmixExchange(const PmixExchange&) = delete;
  PmixExchange& operator=(const PmixExchange&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// All ranks call it, once for each `rank`; returns what that one said.
  std::string hear_from(int rank, const std::string& word);
  /// All ranks call it; returns when all have.
  void meet();

 private:
  int rank_ = 0;
  int size_ = 0;
};

/// An IPv4 address of this host that others may reach, and its name: "name 10.0.0.1".
std::string own_address();
/// From what own_address() said on the other host: by loopback if it is this one.
std::string reachable(const std::string& said);

}  // namespace weft::bench
