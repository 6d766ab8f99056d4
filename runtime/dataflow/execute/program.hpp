// A rank's part in the form that is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/executor.hpp"

namespace weft::dataflow {

enum class Work : std::uint8_t {
  feed,
  variable,
  fetch,
  assign,
  alias,  ///< all outputs are aliases of inputs
  send,
  receive,
  kernel
};

/// The memory of an output.
struct Home {
  enum class Kind : std::uint8_t { plain, arena, published, input, variable };
  Kind kind = Kind::plain;
  std::size_t input = 0;  ///< whose memory it takes
  NodeId variable = -1;   ///< whose memory it takes, since the variable is assigned this tensor
};

struct Instruction {
  const Node* node = nullptr;
  Work work = Work::kernel;
  const Kernel* kernel = nullptr;
  std::size_t edge = 0;       ///< of a send or receive
  int peer = -1;              ///< of a send or receive
  int earlier = 0;            ///< number of nodes that must have ended
  std::vector<NodeId> later;  ///< nodes that have this one among their `earlier`
  std::vector<NodeId> reads;  ///< receives whose memory it reads
  int users = 0;              ///< of a receive: nodes that read its memory
  std::vector<Home> homes;    ///< by output
};

/// By node of the part. Points into `part` and `kernels`. Throws Error(bad_argument) that names
/// node and definition where a kernel is missing.
std::vector<Instruction> make_program(const Plan& plan, int rank, const Kernels& kernels,
                                      SentMemory sent);

}  // namespace weft::dataflow
