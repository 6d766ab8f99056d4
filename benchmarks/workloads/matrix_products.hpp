// Multiplications that a layer needs, for steps that really compute.
#pragma once

#include <vector>

namespace weft::bench {

/// Products of single-precision matrices that stay in the processor's cache: the arithmetic of a
/// layer without its data. One thread at a time.
class MatrixProducts {
 public:
  MatrixProducts();
  /// Multiplies and adds about as often; fractions of a row are put off.
  void multiply(double multiplications);
  /// Multiplications done so far.
  double done() const noexcept { return done_; }

 private:
  double owed_ = 0;
  double done_ = 0;
  std::vector<float> left_;
  std::vector<float> right_;
  std::vector<float> product_;
};

}  // namespace weft::bench
