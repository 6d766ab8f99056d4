// The options of tables, from C's structs to C++'s.
#pragma once

#include "bindings/c/call.hpp"
#include "weft/pslib.hpp"

namespace weft::c {

// Null pointers stand for the defaults. All throw Error(bad_argument).
pslib::Optimizer optimizer_of(const char* operation, const weft_optimizer* given);
pslib::Schedule schedule_of(const char* operation, const weft_schedule* given);
pslib::Consistency consistency_of(const char* operation, const weft_consistency* given);
pslib::Compression compression_of(const char* operation, const weft_compression* given);
pslib::CheckpointOptions checkpoint_of(const char* operation, const weft_checkpoint_options* given);
/// The type of gradients in transit, where 0 stands for f32.
DType wire_of(const char* operation, weft_dtype dtype);

}  // namespace weft::c
