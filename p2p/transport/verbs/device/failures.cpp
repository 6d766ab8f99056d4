#include "p2p/transport/verbs/device/failures.hpp"

#include <fmt/format.h>

namespace weft::p2p::verbs {
namespace {

constexpr const char* kReport = "this is a defect of weft: please report it with WEFT_LOG=debug";

struct Meaning {
  Code code = Code::path_failed;
  const char* what = "";
  const char* hint = "";
};

Meaning meaning_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {Code::path_failed, "the peer's NIC does not answer",
              "is its host up, and the link? WEFT_IB_TIMEOUT sets how long it is asked"};
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_FATAL_ERR:
      return {Code::path_failed, "the queue pair was taken down",
              "the log of the other rank, or of the device, has the reason"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {Code::system, "the peer had posted no receive", kReport};
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return {Code::system, "memory of this rank was not registered for it", kReport};
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return {Code::system, "the peer's memory does not allow it", kReport};
    default:
      return {Code::system, "the device refused it", kReport};
  }
}

}  // namespace

bool is_loss(ibv_wc_status status) noexcept { return meaning_of(status).code == Code::path_failed; }

bool is_refusal(ibv_wc_status status) noexcept {
  return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
         status == IBV_WC_REM_OP_ERR;
}

Status failure_of(const ibv_wc& completion, const Device& device, int peer, int queue_pair) {
  const Meaning meaning = meaning_of(completion.status);
  return Status(ErrorDetail{
      .code = meaning.code,
      .operation = "path",
      .message = fmt::format("{}: queue pair {} to rank {}: {} ({}, vendor error {:#x})",
                             device.name(), queue_pair, peer, meaning.what,
                             device.verbs().status_text(completion.status), completion.vendor_err),
      .hint = meaning.hint,
      .peer = peer});
}

}  // namespace weft::p2p::verbs
