#include "p2p/transport/path_end.hpp"

#include <fmt/format.h>

namespace weft::p2p {

Status PathEnd::refusal(const char* operation) const {
  ErrorDetail detail;
  {
    const std::lock_guard lock(mutex_);
    if (!why_.ok()) {
      detail = why_.detail();
    } else if (decided_) {
      detail.code = Code::peer_left;
      detail.message = fmt::format("rank {} has left the job", peer_);
    } else {
      detail.code = Code::unreachable;
      detail.message = fmt::format("rank {} is not connected yet", peer_);
      detail.hint = "attach to a slot of it first";
    }
  }
  detail.operation = operation;
  detail.peer = peer_;
  return Status(std::move(detail));
}

}  // namespace weft::p2p
