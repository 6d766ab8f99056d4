// Waiting for a put, and what it lacks where the wait ends by its deadline.
#include <fmt/format.h>

#include <mutex>

#include "base/fail.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft::detail {

using p2p::WaitEnd;

Status PutWriter::wait_put(std::uint64_t ticket, Deadline deadline) noexcept {
  if (p2p::GraphPuts::is_of_graph(ticket)) [[unlikely]]
    return put_of_graph("put");
  const WaitEnd end = local_.waiter.wait([&] { return put_ended(ticket); },
                                         [this] { return !needs_.status().ok(); }, deadline,
                                         [&] { return about_put(ticket); });
  if (end == WaitEnd::ready) return put_outcome(ticket, deadline);
  if (end == WaitEnd::broken) return peer_failure("put");
  local_.recorder.control(stats::Event::timeout, owner_.rank, id_, credits_.sent() + 1);
  const std::lock_guard lock(pending_.mutex());
  return described(Code::timeout, local_.rank, owner_.rank, [&] {
    const p2p::Awaited awaited = late_put(ticket);
    const bool on_its_way = is_on_its_way(ticket);
    const char* const hint =
        on_its_way ? "it stays lent: wait again"
        : pending_.at(ticket).sequence != 0
            ? "does the owner wait for it? it stays lent until the owner has read it"
            : "is the owner at the same step? the put stays pending; cancel() ends it";
    return altered(failure(Code::timeout, "put", awaited.lack, hint), [&](ErrorDetail& detail) {
      detail.sequence_expected = awaited.sequence;
      if (!on_its_way) detail.sequence_seen = credits_.released();
    });
  });
}

stats::WaitAbout PutWriter::about_put(std::uint64_t ticket) const noexcept {
  const std::lock_guard lock(pending_.mutex());
  return about(stats::Operation::put, pending_.sequence_of(ticket, credits_.sent()));
}

p2p::Awaited PutWriter::late_put(std::uint64_t ticket) const {
  p2p::Awaited awaited{
      .slot = spec_.name, .peer = owner_.rank, .host = owner_.host(), .lack = {}, .is_put = true};
  if (is_on_its_way(ticket)) {
    awaited.lack = fmt::format("the tensor is still on its way to rank {} (host {})", owner_.rank,
                               owner_.host());
    return awaited;
  }
  if (const auto& after = pending_.at(ticket).after; after != nullptr && !after->poll()) {
    awaited.lack = "the stream that it was put behind has not come to it";
    return awaited;
  }
  if (mapped_ && ticket == pending_.front_ticket() && mapped_->has_begun(ticket)) {
    awaited.lack = "its GPU has not copied the tensor to the owner's GPU";
    return awaited;
  }
  if (chunks_ && chunks_->waits_for_path(ticket)) {
    awaited.lack = fmt::format("the tensor is still on its way to rank {} (host {})", owner_.rank,
                               owner_.host());
    return awaited;
  }
  if (gpu_sources_ && ticket == pending_.front_ticket() && gpu_sources_->has_begun(ticket)) {
    awaited.lack = "its GPU has not copied the tensor into host memory";
    return awaited;
  }
  // The tensor itself, if it was announced; otherwise the one that lies in the buffer it needs.
  const std::uint64_t announced = pending_.at(ticket).sequence;
  awaited.lack = fmt::format("rank {} (host {}){} has not {}", owner_.rank, owner_.host(),
                             mesh_.suspicion(owner_.rank),
                             announced != 0 ? "read the tensor" : "let go of an earlier tensor");
  const std::uint64_t next = credits_.sent() + 1;
  if (announced != 0 || next > spec_.depth)
    awaited.sequence = announced != 0 ? announced : next - spec_.depth;
  return awaited;
}

p2p::Awaited PutWriter::awaited_put(std::uint64_t ticket) {
  const std::lock_guard lock(pending_.mutex());
  return late_put(ticket);
}

void PutWriter::also_needs(std::span<const int> ranks, Needed needed) {
  // The progress thread reads them where a pending put fails.
  const std::lock_guard lock(pending_.mutex());
  RemoteEnd::also_needs(ranks, needed);
}

void PutWriter::use_queue_pair(int index) {
  const auto refuse = [&](const std::string& why, const char* hint) {
    failure(Code::bad_argument, "use_queue_pair", why, hint).or_throw();
  };
  if (index < 0 || index >= queue_pairs())
    refuse(fmt::format("there is no queue pair {}: rank {} is reached by {}", index, owner_.rank,
                       queue_pairs()),
           "WEFT_QPS_PER_PEER sets how many there are");
  // A slot's puts keep their order by going one way.
  if (credits_.has_put() || pending_.count(std::memory_order_seq_cst) != 0)
    refuse("this end has put already", "choose before the first put");
  target_.queue_pair = index;
}

}  // namespace weft::detail
