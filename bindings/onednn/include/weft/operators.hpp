// Kernels of weft's own definitions, by oneDNN: the library weft::operators.
#pragma once

#include "weft/executor.hpp"

namespace weft::dataflow {

/// Adds to `own` a kernel in host memory for each definition of Definitions::standard() that an
/// executor calls one for and `own` has none for, and returns all. A kernel in `own` is therefore
/// used in place of weft's; one for a user's definition may also be added to the result.
///
/// Numbers are f32; `Add`, `Mul`, `Sum`, reductions, and operators that only move elements take
/// other dtypes too (docs/dataflow.md). A kernel throws Error(bad_argument), naming the node, for a
/// dtype or shape that it can't compute, an index outside its dimension, and a mean or maximum of
/// no elements.
///
/// A kernel runs in the thread that calls it and starts none, so its result depends on its inputs
/// and the processor's instructions alone. It keeps the primitives of the 256 sets of shapes that
/// it met last, with their attributes; for those it allocates nothing but what oneDNN does itself.
/// `Dropout` drops elements as its seed, its node's name and the step's number say
/// (KernelCall::step()). Executors may share a set.
///
/// Control call: may throw Error, exhausted or system. Thread-safety: the kernels of one set may
/// run in any number of threads at once; copies of a set share its state.
WEFT_API Kernels operators(Kernels own = {});

}  // namespace weft::dataflow
