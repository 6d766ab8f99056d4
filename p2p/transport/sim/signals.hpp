// What a rank's channel knows of the words that a peer's puts set, as a NIC's receiver would: by
// number, and by the low bits of their values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "p2p/transport/fabric.hpp"

namespace weft::p2p::sim {

/// One direction of a connection, at its receiving end.
class Signals {
 public:
  explicit Signals(std::uint32_t first) noexcept : next_(first) {}

  std::uint32_t expect(const ExpectedWords& words);
  void expect_no_more(std::uint32_t notification_id) noexcept { expected_.erase(notification_id); }

  /// Sets the word that a put to `word` with this signal is to set to `sequence`. Empty, or what is
  /// wrong with it: then nothing is set.
  std::string set(std::uint32_t notification_id, std::uint64_t sequence,
                  const std::byte* word) noexcept;

 private:
  std::uint32_t next_;
  std::map<std::uint32_t, ExpectedWords> expected_;  ///< by their first number
};

}  // namespace weft::p2p::sim
