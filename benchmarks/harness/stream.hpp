// Tensors handed over block by block, by weft's way and by the limit's in turn.
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

/// What one hand-over moves.
struct Stream {
  std::string name;           ///< weft's slots have it, or begin with it and a dot
  std::size_t size = 0;       ///< bytes of a tensor
  std::size_t tensors = 1;    ///< of one hand-over
  std::size_t rewritten = 0;  ///< bytes at a tensor's start that each hand-over writes anew
  bool check = false;
};

/// The sender's side of one way to move tensors. `stamp` differs between any two tensors of a run
/// and grows; the two sides agree on it.
class StreamSender {
 public:
  virtual ~StreamSender() = default;
  /// Where tensor `i` is to be written. Not timed.
  virtual std::byte* source(std::size_t i) = 0;
  /// Timed: moves tensor `i`, or tells of it.
  virtual void move(std::size_t i, std::uint64_t stamp) = 0;
};

/// The receiver's side.
class StreamReceiver {
 public:
  virtual ~StreamReceiver() = default;
  /// Timed: waits for tensor `i`. It lies where the result says until release().
  virtual const std::byte* take(std::size_t i, std::uint64_t stamp) = 0;
  virtual void release(std::size_t) {}
};

/// A side's ways, by variant.
using OutgoingWays = std::vector<std::unique_ptr<StreamSender>>;
using IncomingWays = std::vector<std::unique_ptr<StreamReceiver>>;

/// A variant that every stream has: bare flags there and back. Only for runs of two ranks.
inline constexpr std::uint32_t kHop = 100;

/// A kind of row.
struct Kind {
  std::string name;
  bool touched = false;  ///< receivers read every cache line before the clock stops
};
inline const std::vector<Kind> kTouchedOrNot{{std::string(kUntouched), false},
                                             {std::string(kTouched), true}};

/// Measures a row of some kind, leading with `conductor`.
using MeasureRow = std::function<RunRow(Conductor&, const Kind&, const RunBlock&)>;

/// measure_against_limit().
MeasureRow against_limit(const Stream& stream, std::span<const std::uint32_t> ways,
                         const RunOptions& options);

/// Every rank calls it: rank 0 sends by the ways that `outgoing` makes, the others receive by those
/// of `incoming`. On rank 0 a row for every kind, with the figures "sender_requests" and
/// "receiver_requests" (work requests of weft's slots by tensor) and "bytes_copied" (in user space,
/// all ranks). Throws std::runtime_error when the stream is checked and data is not what was sent.
std::vector<RunRow> run_stream(const World& world, const SharedMemory& bare, const Stream& stream,
                               std::span<const Kind> kinds,
                               const std::function<OutgoingWays()>& outgoing,
                               const std::function<IncomingWays()>& incoming,
                               const MeasureRow& measure);

/// The rows of all sizes. `run` gets a stream of one tensor by hand-over, wholly rewritten, whose
/// name tells benchmark and size.
std::vector<RunRow> for_each_size(const RunOptions& options,
                                  const std::function<std::vector<RunRow>(Stream)>& run);

}  // namespace weft::bench
