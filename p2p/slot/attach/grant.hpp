// Checks of values that the other end of a slot sends or writes: they may be anything, so they are
// checked before use.
#pragma once

#include <cstdint>
#include <optional>

#include "p2p/slot/attach/contract.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/attach/staged_chunks.hpp"

namespace weft::p2p {

/// The code of a refusal that another rank wrote; `system` if it is no error's code.
Code code_of(std::uint32_t written) noexcept;
/// Whether both ends of a slot mean the same tensors. A dynamic slot's sizes are free.
bool same_contract(const Contract& one, const Contract& other) noexcept;
/// The shape that `record` announces for a slot of `dims` dimensions. nullopt if it is no valid
/// shape, or if the record names no rank of the job.
std::optional<Shape> shape_of(const DynamicRecord& record, std::size_t dims, int ranks);
/// Whether an owner's credit word makes sense: it can't release a put that was not made. A put
/// counts as sent only once it has arrived, and may be released by then.
constexpr bool is_credible(std::uint64_t credit, std::uint64_t sent) noexcept {
  return credit <= sent + 1;
}

/// Whether what was granted can be a slot of the contract `declared`, with room for all of it,
/// where such memory lies.
bool makes_sense(const AttachedMessage& message, const Contract& declared) noexcept;
/// The same of buffers on a GPU that the writer's GPU may copy into.
bool gpu_buffers_make_sense(const AttachedMessage& message, const Contract& declared) noexcept;
/// The same of buffers with words behind them. `most`: Channel::tails_up_to().
bool tails_make_sense(const AttachedMessage& message, const Contract& declared,
                      std::uint64_t most) noexcept;

/// The chunks that were granted; none if what was granted can't be right. `count` 1: there are
/// none.
std::optional<StagedChunks> granted_chunks(const AttachedMessage& message,
                                           const Contract& declared) noexcept;

}  // namespace weft::p2p
