// The state of a call; a Plan holds one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/atomic_stage.hpp"
#include "p2p/memory/arena.hpp"
#include "runtime/collective/device_call.hpp"
#include "runtime/collective/gpu_call.hpp"
#include "runtime/collective/group_area.hpp"
#include "runtime/collective/reducer.hpp"
#include "runtime/collective/schedule_run.hpp"
#include "runtime/collective/task.hpp"
#include "weft/error.hpp"

namespace weft::detail {

/// The memory of a call within a host: other ranks reach the user's tensors, or a staging copy of
/// those that are not shared.
struct WithinHost {
  TensorPlaces places;
  p2p::OwnedBlock in_stage;
  p2p::OwnedBlock out_stage;
  bool by_nodes = false;    ///< the work goes in steps, within NUMA nodes and between them
  p2p::OwnedBlock partial;  ///< this rank's partial result of its node
  std::size_t partial_bytes = 0;
};

/// The memory and the schedule of a call between hosts.
struct BetweenHosts {
  Tensor flat_in{};  ///< `call.in` as bytes
  Tensor flat_out{};
  Tensor results{};                       ///< results for others, as bytes; or a schedule's sums
  std::unique_ptr<ScheduleRun> rounds{};  ///< set if the call follows a schedule
  GpuArithmetic arithmetic{};             ///< if GPUs carry it out
  std::vector<std::byte> gathered{};      ///< output of an all_to_all in place, until it ends
  std::byte nothing{};                    ///< target of parts that have no bytes
  struct Partner {
    int rank = 0;  ///< index of the member
    SlotLink::Widths widths{};
  };
  /// The members that messages are exchanged with, from the next member on.
  std::vector<Partner> partners{};
};

/// A call that can go two ways: what it has of the one that it does not go now.
struct OtherWay {
  Call call;
  Task task;
  bool with_word = false;
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  WithinHost within;
  BetweenHosts between;
};

struct StreamRuns;

struct PlannedCall {
  enum class Stage : std::uint8_t {
    idle,
    bringing,  ///< this rank's input is copied from its GPU
    posting,   ///< another rank may still read the entry that this call is to use
    entering,  ///< some members have not entered yet
    leaving,   ///< some members have not completed the call yet
    taking,    ///< all is done but for the copy of this rank's output to its GPU
    ended
  };

  Call call;                     ///< holds the tensors, in host memory unless on_device
  std::unique_ptr<GpuCall> gpu;  ///< null: they are the application's own
  /// For the GPUs to carry it out. Null: they don't, or a member's has refused.
  std::unique_ptr<DeviceCall> device;
  bool on_device = false;  ///< they carry it out, as far as this rank knows
  /// There is no `device` for a reason that may pass: each start of the call asks for one.
  bool asks_again = false;
  bool for_now = false;  ///< this time it goes by host memory, a later time perhaps not
  /// By host memory while on_device, else on the GPU. Without one, the call has had but one way.
  std::optional<OtherWay> other_way;
  struct Streams {
    std::shared_ptr<StreamRuns> runs;      ///< null: it was not started on a stream yet
    std::shared_ptr<StreamRuns> prepares;  ///< this is no call, but the preparation of those
  } streams;
  Task task;
  std::optional<Reducer> reducer;
  std::uint32_t fingerprint = 0;
  bool with_word = false;  ///< tensors travel whole: inside the entry, or in one exchange

  std::byte* in = nullptr;  ///< the memory that the work uses
  std::byte* out = nullptr;
  WithinHost within;
  BetweenHosts between;

  AtomicStage<Stage> stage = Stage::idle;
  std::uint64_t number = 0;
  /// Hash of this call and of all calls before it in the group: equal on all ranks that agree. Not
  /// 0.
  std::uint32_t mark = 0;
  int awaited = 0;               ///< the first member that this stage has not seen yet
  int step = 0;                  ///< completed steps of a call that goes in steps
  std::uint64_t started_ns = 0;  ///< for the record; 0: it is not recorded
  std::size_t pieces = 0;        ///< completed pieces of the call, or of its current step
  bool is_late = false;          ///< a wait for it has ended by its deadline
  Status status{};

  bool under_way() const noexcept {
    const Stage now = stage;
    return now != Stage::idle && now != Stage::ended;
  }
  /// Under way, and the group has to do with it.
  bool queued() const noexcept { return under_way() && stage != Stage::taking; }
  /// Bytes of the user's tensors that other ranks access in place.
  std::int64_t lent_bytes() const noexcept {
    const std::size_t in_place = within.in_stage ? 0 : task.in_bytes;
    const std::size_t out_place = within.out_stage ? 0 : task.out_bytes;
    return static_cast<std::int64_t>(task.in == task.out ? std::max(in_place, out_place)
                                                         : in_place + out_place);
  }
  void turn_round() noexcept {
    std::swap(call, other_way->call);
    std::swap(task, other_way->task);
    std::swap(with_word, other_way->with_word);
    std::swap(in, other_way->in);
    std::swap(out, other_way->out);
    std::swap(within, other_way->within);
    std::swap(between, other_way->between);
  }
  void end(Status why) noexcept {
    status = std::move(why);
    stage = Stage::ended;
  }
};

}  // namespace weft::detail
