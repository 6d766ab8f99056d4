#include <array>

#include "base/config.hpp"

namespace weft {
namespace {

constexpr std::string_view kTime = "a time above 0, such as 20s, 500ms, 1.5s, 2m or 1h";
constexpr std::string_view kFlag = "1 | 0 | on | off";
constexpr std::int64_t kMiB = 1 << 20;

constexpr std::array<KnobSpec, static_cast<std::size_t>(Knob::count_)> kTable{{
    {Knob::timeout, "WEFT_TIMEOUT", KnobType::time, "60s", kTime,
     "how long a wait lasts that was given no deadline of its own"},
    {Knob::init_timeout, "WEFT_INIT_TIMEOUT", KnobType::time, "60s", kTime,
     "how long joining may take until a rank that has not arrived is named"},
    {Knob::log, "WEFT_LOG", KnobType::log_levels, "warn",
     "level[:subsystem][,...] of levels trace, debug, info, warn, error, off and subsystems boot, "
     "arena, path, slot, progress, ps, tool",
     "the least level that is logged, for all subsystems or for one"},
    {Knob::log_file, "WEFT_LOG_FILE", KnobType::text, "",
     "a path in an existing folder; %h stands for the host, %p the process, %r the rank, %% for %",
     "the file that log lines are appended to; empty: stderr"},
    {Knob::bootstrap, "WEFT_BOOTSTRAP", KnobType::choice, "auto", "auto | pmix | alone",
     "how ranks find each other; auto: PMIx under a launcher, else alone"},
    {Knob::fabric, "WEFT_FABRIC", KnobType::choice, "auto", "auto | shm",
     "the fabric that peers are reached by; auto: the best that reaches them"},
    {Knob::require, "WEFT_REQUIRE", KnobType::choice, "none", "none | rdma | gdr",
     "the least that a path must be; a lesser one is an error, not a fallback"},
    {Knob::arena_chunk, "WEFT_ARENA_CHUNK", KnobType::size, "16m", "a size from 2m on, such as 16m",
     "arenas grow by this much at a time", false, 2 * kMiB},
    {Knob::arena_max, "WEFT_ARENA_MAX", KnobType::size, "0", "a size such as 4g, or 0",
     "the most that a rank's data arena may hold; 0: what the machine allows", false, 0},
    {Knob::huge_pages, "WEFT_HUGE_PAGES", KnobType::choice, "auto", "auto | off",
     "auto: ask the kernel for huge pages in arenas"},
    {Knob::spin, "WEFT_SPIN", KnobType::time, "auto", "a time such as 50us, 0s, or auto",
     "how long a wait polls before it yields; auto: by the ranks and processors of the host", true,
     0},
    {Knob::zero_copy, "WEFT_ZERO_COPY", KnobType::boolean, "1", kFlag,
     "0: stage every put through a copy, to compare with"},
    {Knob::cross_memory, "WEFT_CROSS_MEMORY", KnobType::choice, "auto", "auto | off",
     "auto: adopted memory is copied by the kernel where it lets ranks do so; off: it is staged"},
    {Knob::check, "WEFT_CHECK", KnobType::choice, "none", "none | flow",
     "flow: run synchronous slots with credits and report an overrun"},
    {Knob::record, "WEFT_RECORD", KnobType::choice, "control", "off | control | all",
     "which events a rank keeps in the ring that tools read; all: every transfer too"},
    {Knob::stream_bytes, "WEFT_STREAM_BYTES", KnobType::size, "auto", "a size such as 4m, or auto",
     "puts from this size on bypass the cache; auto: each slot finds out", true},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].knob != static_cast<Knob>(i)) return false;
  return true;
}
static_assert(is_in_order(), "the table has every knob, in the order of Knob");

}  // namespace

std::span<const KnobSpec> knob_table() noexcept { return kTable; }

}  // namespace weft
