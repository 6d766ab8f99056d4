// A call on its way: what a Plan holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "runtime/collective/group_area.hpp"
#include "runtime/collective/reducer.hpp"
#include "runtime/collective/schedule_run.hpp"
#include "runtime/collective/task.hpp"
#include "weft/error.hpp"

namespace weft::detail {

struct PlannedCall {
  enum class Stage : std::uint8_t {
    idle,
    posting,   ///< the entry that this call takes is still read by somebody
    entering,  ///< others have not come yet
    leaving,   ///< others are not done yet
    ended
  };

  Call call;  ///< holds the tensors
  Task task;
  std::optional<Reducer> reducer;
  std::uint32_t fingerprint = 0;
  bool with_word = false;  ///< tensors travel with the call's word, whole

  // Where tensors are reached by others, which is elsewhere for those that they can't reach.
  TensorPlaces places;
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  p2p::OwnedBlock in_stage;
  p2p::OwnedBlock out_stage;
  bool by_nodes = false;    ///< in steps, within NUMA nodes and between them
  p2p::OwnedBlock partial;  ///< what this rank combines of its node
  std::size_t partial_bytes = 0;

  // Between hosts.
  Tensor flat_in{};  ///< the tensors as bytes
  Tensor flat_out{};
  Tensor results{};                     ///< for others, as bytes; or where a program combines
  std::optional<ScheduleRun> rounds{};  ///< of a call that goes by rounds
  std::vector<std::byte> gathered{};    ///< all_to_all in place
  std::byte nothing{};                  ///< what no bytes are taken into

  Stage stage = Stage::idle;
  std::uint64_t number = 0;
  /// Stands for this call and all before it in the group: equal on all ranks that agree. Not 0.
  std::uint32_t mark = 0;
  int awaited = 0;         ///< the first rank that was not seen yet
  int step = 0;            ///< of one that goes in steps: how many are done
  std::size_t pieces = 0;  ///< of its work, or of the step's: how many are done
  Status status{};

  bool under_way() const noexcept { return stage != Stage::idle && stage != Stage::ended; }
  /// Bytes of the user's tensors that others reach where they lie.
  std::int64_t lent_bytes() const noexcept {
    const std::size_t in_place = in_stage ? 0 : task.in_bytes;
    const std::size_t out_place = out_stage ? 0 : task.out_bytes;
    return static_cast<std::int64_t>(task.in == task.out ? std::max(in_place, out_place)
                                                         : in_place + out_place);
  }
  void end(Status why) noexcept {
    status = std::move(why);
    stage = Stage::ended;
  }
};

}  // namespace weft::detail
