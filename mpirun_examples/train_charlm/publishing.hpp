// The parameters for processes outside the job: rank 0 publishes them, rollout_charlm reads them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "options.hpp"
#include "weft/pslib.hpp"

namespace charlm {

/// On rank 0 with --publish; elsewhere it does nothing. One thread at a time.
class Publishing {
 public:
  /// `table` and `world` must outlive it. Throws weft::Error.
  Publishing(weft::World& world, const Options& options, const weft::pslib::Table& table);

  /// Publishes what the table's parameters are after this step, when it is due.
  void step(int step, int steps);
  /// Waits until the readers have the last version; those that take too long go without.
  void finish();

 private:
  int every_ = 0;
  std::vector<weft::Tensor> tensors_;
  std::unique_ptr<weft::pslib::Publisher> publisher_;
  std::optional<weft::pslib::Publication> publication_;
};

}  // namespace charlm
