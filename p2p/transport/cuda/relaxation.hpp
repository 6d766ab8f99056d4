// Calls of the driver while another thread captures a graph.
#pragma once

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::p2p::cuda {

/// For a scope: questions to events, pinning and the like would otherwise spoil a graph that
/// another thread captures.
class ScopedRelaxation {
 public:
  explicit ScopedRelaxation(const Driver& driver) : driver_(driver) {
    (void)driver_.exchange_capture_mode(&mode_);
  }
  ScopedRelaxation(const ScopedRelaxation&) = delete;
  ScopedRelaxation& operator=(const ScopedRelaxation&) = delete;
  ~ScopedRelaxation() { (void)driver_.exchange_capture_mode(&mode_); }

 private:
  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::relaxed;
};

}  // namespace weft::p2p::cuda
