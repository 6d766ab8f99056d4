// A slot's and a path's counters, written where the work is posted and read by anybody: they lie on
// the rank's stats segment.
#pragma once

#include "base/stats/layout.hpp"

namespace weft::p2p {

using stats::Counter;
using stats::EdgeCounters;
using stats::GpuCounters;
using stats::PathCounters;

}  // namespace weft::p2p
