// The parts of the table of calls.
#pragma once

#include <vector>

#include "base/fail.hpp"
#include "tests/threads/handles/every_handle.hpp"

namespace weft::tests {

using Answer = HandleCall::Answer;
using H = EveryHandle;

std::vector<HandleCall> calls_of_the_world();
/// Functions that make handles from a world, and Group.
std::vector<HandleCall> calls_with_a_world();
std::vector<HandleCall> calls_of_slots();
std::vector<HandleCall> calls_of_groups_and_messages();
std::vector<HandleCall> calls_of_pslib();
std::vector<HandleCall> calls_of_dataflow();

/// The answer of a quiet call: ok if it was neutral.
inline Status neutral(bool is_neutral) {
  if (is_neutral) return {};
  return Status(error_detail(Code::system, "test", "the answer is not neutral"));
}

}  // namespace weft::tests
