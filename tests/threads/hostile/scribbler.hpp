// A hostile rank: writes random values over every word that it shares with its peers, and sends
// them messages that they did not ask for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace weft::tests {

/// A thread that scribbles from its construction to its destruction. Its actions follow from the
/// seed, except for the timing of the other threads.
class Scribbler {
 public:
  struct Plan {
    unsigned seed = 0;
    bool theirs = true;      ///< memory of its peers that is mapped here for writing
    bool own = true;         ///< its own, which its peers read
    bool messages = false;   ///< on the sockets by which it reaches them
    unsigned pause_us = 50;  ///< at most, between two words
    /// The plan of seed `n`: some seeds attack one of these targets alone.
    static Plan of(unsigned seed);
  };

  explicit Scribbler(const Plan& plan);
  ~Scribbler();
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

 private:
  using Word = std::atomic<std::uint64_t>;

  void work();
  void look();
  void look_through(std::span<Word> words);
  void scribble();
  std::uint64_t value_for(std::uint64_t now);
  void send_nonsense();
  bool chance(unsigned of) { return random_() % of == 0; }

  const Plan plan_;
  std::mt19937_64 random_;
  std::vector<Word*> aims_;   ///< words that are in use, and their neighbours
  std::vector<int> sockets_;  ///< to its peers
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace weft::tests
