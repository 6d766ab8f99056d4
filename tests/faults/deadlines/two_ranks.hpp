// Two ranks that are processes: rank 0 calls; rank 1 follows rank 0's orders and is stopped.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/deadlines/row.hpp"

namespace weft::tests {

using std::chrono::milliseconds;

constexpr milliseconds kDeadline{80};
/// The time that a call may take beyond its deadline; longer on an emulated host. Set it before
/// there are ranks.
inline milliseconds grace{100};
/// A busy machine may be late now and then; a call that doesn't keep its deadline always is.
constexpr int kTries = 3;

enum class Mode : std::uint8_t { stopped, stopped_within, silent, past, known, cut, cut_within };
inline constexpr std::array kModes{Mode::stopped, Mode::stopped_within, Mode::silent, Mode::past};
/// Rank 1 is stopped long enough for rank 0 to know it, so the error must say so.
inline constexpr std::array kKnownModes{Mode::known};
/// Modes for a process with a network namespace of its own.
inline constexpr std::array kCutModes{Mode::cut, Mode::cut_within};
/// The deadlines of Mode::past, which successive calls take in turn.
constexpr int kPastDeadlines = 3;
constexpr bool is_cut(Mode mode) { return mode == Mode::cut || mode == Mode::cut_within; }
constexpr bool is_within(Mode mode) {
  return mode == Mode::stopped_within || mode == Mode::cut_within;
}
const char* name_of(Mode mode);

struct Places {
  std::filesystem::path folder;
  int port = 0;
  int subscribers = 0;
};

World join(int rank, const Places& places);

/// Rank 0's order to rank 1. Rank 1 answers with one byte when it has carried out the order, except
/// for `part`.
struct Order {
  enum class What : std::uint8_t { make, part, end };
  What what = What::make;
  std::uint32_t row = 0;
  std::uint32_t number = 0;
};

/// Rank 1: carries out orders until there are no more. Returns its exit status.
int obey(int orders, const Places& places);

class Peer {
 public:
  Peer(int orders, pid_t pid) : orders_(orders), pid_(pid) {}

  void begin(const Order& order) const;
  void await() const;
  void stop() const;
  void go_on() const { ::kill(pid_, SIGCONT); }
  /// Cuts the link between the ranks, or restores it.
  static void set_link(bool up);

 private:
  const int orders_;
  const pid_t pid_;
};

class Runner {
 public:
  Runner(World& world, const Peer& peer, const Places& places)
      : world_(world), peer_(peer), places_(places) {}

  /// The number of calls that ended by their deadline.
  int timeouts() const { return timeouts_; }

  /// The error of the call; usually empty.
  std::string run(std::uint32_t index, const Row& row, Mode mode);

 private:
  std::string attempt(std::uint32_t index, const Row& row, Mode mode, bool& late);

  void begin_fault(Mode mode) const;
  void end_fault(Mode mode) const;
  std::string judge(const Row& row, const Said& said, std::chrono::nanoseconds took, Mode mode,
                    bool& late);

  World& world_;
  const Peer& peer_;
  const Places& places_;
  std::uint32_t number_ = 0;
  int timeouts_ = 0;
};

}  // namespace weft::tests
