// The limit over TCP: a bare connection between the same two ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/os/fd.hpp"
#include "benchmarks/harness/limit_ways.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// A connection between rank 0 and another rank. Both call the same functions. Throws
/// std::runtime_error.
class BareStream {
 public:
  explicit BareStream(World& world, int other = 1);
  ~BareStream();
  BareStream(const BareStream&) = delete;
  BareStream& operator=(const BareStream&) = delete;

  /// Sends 8 bytes there and back `count` times, polling for each arrival. Returns microseconds one
  /// way, for each.
  std::vector<double> pings(std::uint32_t count);

  /// The ways to send tensors of `size` bytes, and to exchange them.
  static LimitWays ways_to_send(std::size_t size);
  static LimitWays ways_to_exchange(std::size_t size);
  /// Rank 0 sends `size` bytes `count` times and gets 8 bytes once all have arrived; so in each way
  /// that is left of ways_to_send(). Adds the microseconds per transfer to rank 0's `ways`.
  void send(std::size_t size, std::uint32_t count, LimitWays& ways);
  /// Both ranks send each other `size` bytes at once, `count` times, rewriting them before; so in
  /// each way that is left of ways_to_exchange(). Adds the microseconds per exchange to rank 0's
  /// `ways`.
  void exchange(std::size_t size, std::uint32_t count, LimitWays& ways);

 private:
  /// Rank 0 names each way that is left to the other rank; both then call `run` with its number.
  template <typename Run>
  void try_each(std::uint32_t count, LimitWays& ways, Run&& run);
  void put(const std::byte* from, std::size_t bytes, std::size_t at_once, int flags);
  void take(std::byte* to, std::size_t bytes, std::size_t at_once, int flags);
  void take_above_low_water(std::byte* to, std::size_t bytes, std::size_t low_water);
  void set_low_water(std::size_t bytes);
  void put_word(std::uint64_t word);
  std::uint64_t take_word(int flags);
  /// Memory for at least `bytes`, which belongs to a file.
  void make_room(std::size_t bytes);
  void sleeps_in_calls(bool sleeps);
  /// Gives the socket as many pages of the file as it has room for; returns their bytes.
  std::size_t put_file(std::size_t from, std::size_t bytes);
  /// Sends the first `bytes` of the memory and receives as many behind them.
  void swap(std::size_t bytes, std::size_t ahead, bool by_file);

  bool leads_;
  os::Fd socket_;
  os::Fd file_;
  std::span<std::byte> buffer_;  ///< the mapped file
  std::size_t low_water_ = 1;    ///< bytes that have to be there for poll() to return
  std::size_t round_ = 0;        ///< each round begins with another way
};

}  // namespace weft::bench
