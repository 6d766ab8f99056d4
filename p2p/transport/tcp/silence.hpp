// Judges the silence of rails by the kernel's acknowledgements.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace weft::p2p::tcp {

/// Of one rail, as its kernel tells.
struct RailSign {
  bool up = false;
  bool awaits_answer = false;             ///< something of it is under way
  std::chrono::nanoseconds last_heard{};  ///< since any packet of the peer came by it
  std::chrono::nanoseconds round_trip{};  ///< measured
};

/// A rail is given up for its silence only while another one is seen to work: if all are silent,
/// each waits for its network. Once one is back, the others have as long again as all were silent:
/// their kernels will have asked again by then, so that both ends give up the same rails. One that
/// has nothing under way shows nothing, and is to be asked. The caller locks.
class SilenceJudge {
 public:
  struct Verdict {
    std::optional<std::size_t> lost;    ///< a rail that is to be given up
    std::chrono::nanoseconds silent{};  ///< for how long it was, while another one worked
    bool path_lost = false;             ///< all rails that are left are silent, and one was closed
    std::vector<std::size_t> ask;       ///< rails to send something by, as their answer shows
  };
  /// Called again and again, `since_last` call. `was_closed`: the peer has closed a rail, and has
  /// not said why: its process may have ended. Then silence of all others is not borne: the path is
  /// lost once the kernel has asked again by each of them without an answer.
  Verdict judge(std::span<const RailSign> rails, bool was_closed,
                std::chrono::nanoseconds since_last, std::chrono::nanoseconds patience);

 private:
  struct Silence {
    std::chrono::nanoseconds all{};      ///< at a stretch
    std::chrono::nanoseconds counted{};  ///< of that, while another rail worked
  };
  bool is_path_lost(std::span<const RailSign> rails, bool was_closed);

  std::vector<Silence> silences_;
  std::optional<std::chrono::nanoseconds> when_closed_;  ///< the longest one, as it was then
};

}  // namespace weft::p2p::tcp
