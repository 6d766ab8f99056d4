// Blocks of tensor hand-overs, alternating between weft's way and the limit's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// The tensors of one hand-over.
struct Stream {
  std::string name;           ///< weft's slots are named so, or with a dot and more behind it
  std::size_t size = 0;       ///< bytes per tensor
  std::size_t tensors = 1;    ///< per hand-over
  std::size_t rewritten = 0;  ///< bytes at each tensor's start that a hand-over rewrites
  bool check = false;
};

/// The sender's side of one way to move tensors. Stamps grow and are unique among the tensors of a
/// run; both sides compute the same ones.
class StreamSender {
 public:
  virtual ~StreamSender() = default;
  /// Where to write tensor `i`. Not timed.
  virtual std::byte* source(std::size_t i) = 0;
  /// Moves or announces tensor `i`. Timed.
  virtual void move(std::size_t i, std::uint64_t stamp) = 0;
};

/// The receiver's side of one way to move tensors.
class StreamReceiver {
 public:
  virtual ~StreamReceiver() = default;
  /// Waits for tensor `i` and returns its address, valid until release(). Timed.
  virtual const std::byte* take(std::size_t i, std::uint64_t stamp) = 0;
  virtual void release(std::size_t) {}
};

/// A side's ways, indexed by variant.
using OutgoingWays = std::vector<std::unique_ptr<StreamSender>>;
using IncomingWays = std::vector<std::unique_ptr<StreamReceiver>>;

/// A variant of every stream: bare flags there and back. Only for runs of two ranks.
inline constexpr std::uint32_t kHop = 100;

/// A kind of row.
struct Kind {
  std::string name;
  bool touched = false;  ///< receivers read every cache line before the clock stops
};
inline const std::vector<Kind> kTouchedOrNot{{std::string(kUntouched), false},
                                             {std::string(kTouched), true}};

/// Measures a row of the given kind, leading with `conductor`.
using MeasureRow = std::function<RunRow(Conductor&, const Kind&, const RunBlock&)>;

/// A MeasureRow that calls measure_against_limit().
MeasureRow against_limit(const Stream& stream, std::span<const std::uint32_t> ways,
                         const RunOptions& options);

/// Collective. Rank 0 sends by the ways of `outgoing`; the others receive by those of `incoming`.
/// Rank 0 returns a row per kind, with the figures "sender_requests" and "receiver_requests" (work
/// requests of weft's slots per tensor) and "bytes_copied" (in user space, all ranks). Throws
/// std::runtime_error if a check finds wrong data.
std::vector<RunRow> run_stream(const World& world, const SharedMemory& bare, const Stream& stream,
                               std::span<const Kind> kinds,
                               const std::function<OutgoingWays()>& outgoing,
                               const std::function<IncomingWays()>& incoming,
                               const MeasureRow& measure);

/// The rows of all sizes. `run` gets a stream of one tensor per hand-over, rewritten entirely,
/// whose name contains benchmark and size.
std::vector<RunRow> for_each_size(const RunOptions& options,
                                  const std::function<std::vector<RunRow>(Stream)>& run);

}  // namespace weft::bench
