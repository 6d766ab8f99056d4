#include "p2p/rendezvous/session_context.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"

namespace weft::p2p::rendezvous {

SlotSpec SessionContext::message_slot(int from) const {
  return {.name = fmt::format("rdv.{}.{}", shared_name, from),
          .dtype = DType::u8,
          .shape = {static_cast<std::int64_t>(spec.message_bytes)},
          .depth = kDepth};
}

Status SessionContext::failure(Code code, const char* operation, const KeyStep& at,
                               std::string_view message, std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = fmt::format("key \"{}\", step {}: {}", at.key, at.step, message),
                       .hint = std::string(hint),
                       .rank = local.rank,
                       .peer = peer.rank,
                       .host = peer.host()};
  });
}

void SessionContext::observe(RendezvousMessage message, bool sent_here, const KeyStep& at,
                             bool by_name, bool with_metadata) const {
  if (!spec.observer) return;
  spec.observer({message, sent_here, peer.rank, at.key, at.step, by_name, with_metadata});
}

void SessionContext::complain(const char* what) noexcept {
  if (std::exchange(complained, true)) return;
  local.log->warn(Subsystem::slot, "rendezvous {}: rank {} sent {}: ignored", spec.name, peer.rank,
                  what);
}

void SessionContext::report(std::vector<EdgeReport>& edges) const {
  const auto add = [&](const EdgeCounters& counters, const GpuCounters& gpu_counters, Role role) {
    EdgeReport edge;
    edge.peer = peer.rank;
    edge.slot = "rendezvous." + spec.name;
    edge.role = role;
    edge.fabric = peer.channel ? std::string(p2p::name(peer.channel->fabric())) : "";
    edge.counters = counters.read();
    gpu_counters.read(edge.counters);
    if (edge.counters.staged_bytes != 0) {
      edge.way = "staged";
      edge.reason = "tensors lie on a GPU, and a rendezvous moves host memory alone";
    }
    if (edge.counters.transfers + edge.counters.control_messages != 0)
      edges.push_back(std::move(edge));
  };
  add(sent, sent_from_gpu, Role::puts);
  add(received, received_to_gpu, Role::receives);
}

}  // namespace weft::p2p::rendezvous
