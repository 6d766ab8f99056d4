// Publication of the parameters by rank 0, for processes outside the job (rollout_charlm).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "options.hpp"
#include "weft/pslib.hpp"

namespace charlm {

/// Works on rank 0 with --publish, otherwise does nothing. Thread-safety: one thread at a time.
class Publishing {
 public:
  /// `table` and `world` must outlive this object. Throws weft::Error.
  Publishing(weft::World& world, const Options& options, const weft::pslib::Table& table);

  /// Publishes the table's parameters after `step` of `steps`, if a publication is due.
  void step(int step, int steps);
  /// Waits until the readers have the last version; readers that take too long don't get it.
  void finish();

 private:
  int every_ = 0;
  std::vector<weft::Tensor> tensors_;
  std::unique_ptr<weft::pslib::Publisher> publisher_;
  std::optional<weft::pslib::Publication> publication_;
};

}  // namespace charlm
