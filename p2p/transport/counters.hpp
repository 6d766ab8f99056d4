// A slot's and a path's counters, written where the work is posted and read by anybody: they lie on
// the rank's status board.
#pragma once

#include "base/board/layout.hpp"

namespace weft::p2p {

using board::Counter;
using board::EdgeCounters;
using board::PathCounters;

}  // namespace weft::p2p
