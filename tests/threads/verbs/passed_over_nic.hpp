// A NIC whose own work is not counted as weft's.
#pragma once

#include <memory>
#include <utility>

#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::tests {

/// A `PassOver` lives during each call that the data path makes.
template <typename PassOver>
class PassedOverNic final : public p2p::verbs::RecordingVerbs {
 public:
  explicit PassedOverNic(std::shared_ptr<p2p::verbs::Verbs> below)
      : RecordingVerbs(std::move(below)) {}

  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    const PassOver nic;
    return RecordingVerbs::post_send(qp, requests, bad);
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* receives, ibv_recv_wr** bad) noexcept override {
    const PassOver nic;
    return RecordingVerbs::post_recv(qp, receives, bad);
  }
  int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept override {
    const PassOver nic;
    return RecordingVerbs::poll_cq(cq, most, completions);
  }
  int req_notify_cq(ibv_cq* cq) noexcept override {
    const PassOver nic;
    return RecordingVerbs::req_notify_cq(cq);
  }
};

}  // namespace weft::tests
