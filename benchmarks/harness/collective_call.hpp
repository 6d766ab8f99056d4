// A weft collective on this rank's tensors, as the benchmarks call it.
#pragma once

#include <string_view>

#include "benchmarks/harness/run_protocol.hpp"
#include "weft/collective.hpp"

namespace weft::bench {

inline Call call_of(std::string_view name, const Tensor& in, const Tensor& out) {
  if (name == kAllReduce) return all_reduce(in, out, Reduction::sum);
  if (name == kBroadcast) return broadcast(in, 0);
  if (name == kAllGather) return all_gather(in, out);
  if (name == kReduceScatter) return reduce_scatter(in, out, Reduction::sum);
  if (name == kAllToAll) return all_to_all(in, out);
  return barrier();
}

}  // namespace weft::bench
