// The collectives of a peer library: MPI's own, or Gloo's.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace weft::bench {

/// For all processes of MPI_COMM_WORLD. Collective to construct. Errors end the job.
class CollectiveCalls {
 public:
  explicit CollectiveCalls(bool on_one_host);
  ~CollectiveCalls();
  CollectiveCalls(const CollectiveCalls&) = delete;
  CollectiveCalls& operator=(const CollectiveCalls&) = delete;

  /// `count` is the elements of the tensor, or of all parts of the larger one.
  void run(std::string_view name, float* in, float* out, std::size_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::bench
