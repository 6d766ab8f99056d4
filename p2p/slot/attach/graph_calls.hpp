// Calls of a slot's end that are part of captured graphs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "p2p/transport/cuda/capture.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

class GraphPort;

/// One call in one capture, which every replay makes anew: that is a run. Kept by its graph, and a
/// wait by its end while the application has the Arrival. Each
/// run begins when the stream comes to it: by a host function, since all that a graph holds is
/// repeated as it is, and a sequence number must not be. The function sets the word `go` to 0 and
/// hands the run to the end. The stream waits behind it until the word is 1. The fields are
/// constant once the call is captured, but for those that say otherwise.
struct GraphCall : cuda::KeptByGraph, std::enable_shared_from_this<GraphCall> {
  enum class Kind : std::uint8_t {
    wait,     ///< for the next arrival
    release,  ///< of what the wait `of` has brought
    put,
    put_end,  ///< waits for the put `of`
    publish,
    get
  };

  /// `patience`: time of a run from its begin on. Requires a Gpu::Current. Throws Error(exhausted).
  GraphCall(Kind kind_of_call, std::shared_ptr<GraphPort> port_of_end, const cuda::Capture& capture,
            std::chrono::nanoseconds patience_of_run);
  ~GraphCall() override;

  /// Makes the call a part of the capture: its host function, and its stream's wait. Requires a
  /// Gpu::Current. Throws Error.
  void add_to(const cuda::Capture& capture);
  bool waits() const noexcept { return go != nullptr; }
  /// As errors name it.
  const char* operation() const noexcept;
  void on_last_handle() noexcept override;
  bool is_at_home() const noexcept override;

  const Kind kind;
  const std::shared_ptr<GraphPort> port;
  const std::shared_ptr<cuda::Gpu> gpu;
  const std::uint64_t capture;  ///< its id
  const std::chrono::nanoseconds patience;
  std::uint32_t* go = nullptr;       ///< null: no stream waits
  std::uint32_t* outcome = nullptr;  ///< of a wait and a get: 0, or the number of a Code
  std::shared_ptr<GraphCall> of{};
  Tensor tensor{};  ///< of a put or a publication, and where a wait or a get brings what comes
  std::vector<Tensor> parts{};    ///< of a gathered put, instead of the tensor
  bool is_copied = false;         ///< a wait's tensor is a place of its own
  Until until = Until::reusable;  ///< of a put
  std::uint64_t id = 0;           ///< of a put, at its end

  // The port's lock.
  std::uint64_t begun = 0;  ///< runs
  std::uint64_t ended = 0;

  // The lock of its end.
  bool is_released = false;  ///< each replay releases what the wait has brought
  std::uint64_t held = 0;    ///< sequence of the tensor that the last run has brought; 0: none

 private:
  std::vector<std::uint32_t> words_;
};

/// Shared by a slot's end and its captured calls. Outlives the end: a graph may be replayed then
/// still, and its streams go on at once. Thread-safe.
class GraphPort {
 public:
  struct Run {
    std::shared_ptr<GraphCall> call;
    std::uint64_t number = 0;
    Deadline until{};
    bool overlaps = false;  ///< the run before it had not ended
  };

  /// `wake`: lets the end serve(); called with the port's lock held, so it stores and rings alone.
  explicit GraphPort(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// A stream has come to the call: on a thread of the driver's.
  void begin(GraphCall& call) noexcept;
  /// Adds the runs that have begun since to `runs`. Returns false if some were lost for want of
  /// memory: their streams go on. Throws std::bad_alloc; they are taken later then.
  bool take(std::vector<Run>& runs);
  /// Whether some are still to be taken.
  bool has_runs() const noexcept;
  /// A run that was taken has ended: its stream goes on. `code`: 0, or that of its failure.
  void end(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept;
  bool has_ended(const GraphCall& call, std::uint64_t number) const noexcept;
  /// The same for a wait whose tensor has come, unless another run of the call has begun, and waits
  /// by the same words. Returns false then, and nothing has ended.
  bool end_last(GraphCall& call, std::uint64_t number) noexcept;
  /// A wait is captured, and will be forgotten. Throws std::bad_alloc.
  void expect_wait();
  /// `held`: the tensor that it has not released; 0: none.
  void forget_wait(std::uint64_t held) noexcept;
  /// One of those tensors; 0: there is none left.
  std::uint64_t next_forgotten() noexcept;
  bool is_closed() const noexcept;
  /// No run will be taken any more. Those that begin from now on end at once.
  void close(Code why) noexcept;

 private:
  static void end_locked(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept;
  /// The same for a run that was never taken, and is not counted as a stream that waits.
  static void go_on(GraphCall& call, std::uint64_t number, std::uint32_t code) noexcept;

  mutable std::mutex mutex_;
  const std::function<void()> wake_;
  std::vector<Run> runs_;
  bool any_lost_ = false;
  std::vector<std::uint64_t> forgotten_;  ///< with room for all waits
  std::size_t waits_ = 0;
  std::uint32_t closed_ = 0;  ///< the number of a Code; 0: it is not
};

/// A deadline that was given at a capture, as the time that each run has.
std::chrono::nanoseconds patience(const LocalRank& local, Deadline deadline) noexcept;

/// The error of runs that are lost for want of memory.
Status lost_runs();

/// The error of several executables of one graph that work at once.
Status overlap();

/// Refuses calls in captures where they can't be. Throws Error(bad_argument).
void check_capture(LocalRank& local, const char* operation);

}  // namespace weft::p2p
