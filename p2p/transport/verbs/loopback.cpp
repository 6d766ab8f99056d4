#include "p2p/transport/verbs/loopback.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/clock.hpp"
#include "base/fail.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::chrono::seconds kLoopbackLongest{5};
constexpr int kLoopbackDepth = 4;

}  // namespace

Loopback::Loopback(Device& device) : device_(device) {
  Verbs& verbs = device.verbs();
  queue_ = CompletionQueue(verbs, verbs.create_cq(device.context(), 2 * kLoopbackDepth, nullptr));
  if (!queue_)
    throw_error(Code::exhausted, "register",
                fmt::format("{}: ibv_create_cq: {}", device.name(), std::strerror(errno)));
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = queue_.get();
  wanted.cap.max_send_wr = kLoopbackDepth;
  wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  pair_ = QueuePairHandle(verbs, verbs.create_qp(device.domain(), &wanted));
  if (!pair_)
    throw_error(Code::exhausted, "register",
                fmt::format("{}: ibv_create_qp: {}", device.name(), std::strerror(errno)));
  device.to_init(pair_.get());
  device.to_ready(pair_.get(), device.address(), pair_->qp_num, 0, 0);
}

Status Loopback::failure(const char* what, const char* why) const noexcept {
  return refuse(Code::system, [&] {
    return ErrorDetail{
        .operation = "register",
        .message = fmt::format("{}: a {} by loopback: {}", device_.name(), what, why)};
  });
}

Status Loopback::write(const Range& from, const RemoteMemory& to) noexcept {
  return run(IBV_WR_RDMA_WRITE, from, to);
}

Status Loopback::read(const Range& to, const RemoteMemory& from) noexcept {
  return run(IBV_WR_RDMA_READ, to, from);
}

Status Loopback::run(ibv_wr_opcode opcode, const Range& here, const RemoteMemory& there) noexcept {
  const char* const what = opcode == IBV_WR_RDMA_READ ? "read" : "write";
  const std::lock_guard lock(mutex_);
  if (is_broken_) return failure(what, "an earlier one has failed");
  ibv_sge place{reinterpret_cast<std::uint64_t>(here.data), here.bytes, here.local_key};
  ibv_send_wr request{};
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &place;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = there.address;
  request.wr.rdma.rkey = there.key;
  Verbs& verbs = device_.verbs();
  ibv_send_wr* bad = nullptr;
  is_broken_ = true;  // unless it ends well
  if (const int error = verbs.post_send(pair_.get(), &request, &bad))
    return failure(what, std::strerror(error));
  const auto until = Clock::now() + kLoopbackLongest;
  ibv_wc done{};
  int count = 0;
  while ((count = verbs.poll_cq(queue_.get(), 1, &done)) == 0) {
    if (Clock::now() > until) return failure(what, "it has not ended in time");
    sched_yield();
  }
  if (count < 0) return failure(what, "its completion queue fails");
  if (done.status != IBV_WC_SUCCESS) return failure(what, verbs.status_text(done.status));
  is_broken_ = false;
  return {};
}

}  // namespace weft::p2p::verbs
