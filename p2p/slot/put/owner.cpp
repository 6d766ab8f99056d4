// The owner's data path: arrivals and credits.
#include "p2p/slot/put/owner.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/given_deadline.hpp"
#include "base/os/asymmetric_barrier.hpp"
#include "p2p/memory/copy_once.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/attach/grant.hpp"

namespace weft::detail {

using p2p::WaitEnd;

PutOwner::PutOwner(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                   const SlotSpec& spec, std::uint64_t id, Tensor memory, p2p::Notify notify)
    : ExposedSlot(local, mesh, table, spec, id),
      spec_(spec),
      notify_(notify),
      buffers_(local, spec_, std::move(memory),
               notify == p2p::Notify::optional && mesh.has_tails()),
      credits_(spec_, spec_.flow == Flow::credits || local.check_flow),
      released_(spec_.depth),
      dynamic_(local, mesh, spec_, id, counters_, row_.gpu_counters()) {}

bool PutOwner::broken() const noexcept {
  const auto* const streams = streams_.load(std::memory_order_acquire);
  if (refused_.is_kept() || (streams != nullptr && streams->is_failed())) return true;
  if (mesh_.gone_count() == 0) return false;
  const int writer = last_writer_.load(std::memory_order_acquire);
  return (writer >= 0 && mesh_.peer(writer).gone()) || !needs_.status().ok();
}

std::uint64_t PutOwner::first_held() const noexcept {
  const std::uint64_t released = released_.all(std::memory_order_relaxed);
  return spec_.flow == Flow::credits && released < received_ ? released + 1 : 0;
}

stats::WaitAbout PutOwner::waits_for(std::uint64_t wanted,
                                     stats::WaitDetails& details) const noexcept {
  if (const std::uint64_t held = first_held(); held != 0) {
    const auto end = fmt::format_to_n(
        details.chars.data(), details.chars.size() - 1, "tensor #{} received and not released{}",
        held, received_ - held + 1 < spec_.depth ? "" : ": no buffer is free");
    *end.out = '\0';
  }
  return {.operation = stats::Operation::wait,
          .peer = last_writer_.load(std::memory_order_acquire),
          .slot = id_,
          .sequence = wanted,
          .details = &details};
}

Status PutOwner::await_arrival(std::uint64_t wanted, Deadline deadline) noexcept {
  return await_until([&] { return buffers_.sequence_at(buffer_) >= wanted; }, wanted, deadline);
}

Status PutOwner::await_in_chunks(std::uint64_t wanted, Deadline deadline) noexcept {
  const auto arrived = [&] {
    if (buffers_.sequence_at(buffer_) >= wanted) return true;
    if (!buffers_.gpu()->expects_chunks()) return false;
    const auto lock = lock_copies();
    begin_unstaging_early(buffer_, wanted);
    return buffers_.sequence_at(buffer_) >= wanted;
  };
  return await_until(arrived, wanted, deadline);
}

template <typename Arrived>
Status PutOwner::await_until(const Arrived& arrived, std::uint64_t wanted,
                             Deadline deadline) noexcept {
  const bool is_pressed =
      !may_put_credit_off() || received_ - credits_.reported() >= credits_.when_pressed();
  if (is_pressed) flush_credit();
  if (deadline.is_default() && local_.waiter.comes_soon(arrived)) return {};
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (!is_pressed && !local_.waiter.comes_at_once(arrived, until.when())) flush_credit();
  const auto broken = [this] { return this->broken(); };
  stats::WaitDetailsRoom details;
  const auto about = [&] { return waits_for(wanted, details.make()); };
  WaitEnd end = WaitEnd::ready;
  if (writer_.load(std::memory_order_acquire) == nullptr) [[unlikely]] {
    // The next event is an attach: this thread may as well handle it.
    const auto attached = [&] { return arrived() || writer_.load() != nullptr; };
    const auto helped = [&] {
      if (!attached()) local_.progress.help();
      return attached();
    };
    end = local_.waiter.wait(helped, broken, until, about);
  }
  if (end == WaitEnd::ready) end = local_.waiter.wait(arrived, broken, until, about);
  return end == WaitEnd::ready ? Status{} : wait_failure(end, wanted);
}

Status PutOwner::await(std::uint64_t wanted, Deadline deadline) noexcept {
  std::uint64_t seen = buffers_.line(buffer_).sequence.load(std::memory_order_acquire);
  if (seen < wanted && buffers_.has_tails()) [[unlikely]]
    seen = buffers_.sequence_at(buffer_);
  if (seen < wanted) {
    Status status = buffers_.gpu() == nullptr ? await_arrival(wanted, deadline)
                                              : await_in_chunks(wanted, deadline);
    if (!status.ok()) [[unlikely]]
      return status;
    seen = buffers_.sequence_at(buffer_);
  }
  if (seen != wanted) [[unlikely]]
    return wrong_arrival(wanted, seen);
  return {};
}

Result<Arrival> PutOwner::wait(Deadline deadline) noexcept {
  if (graphs_) [[unlikely]]
    return wait_beside_graphs(deadline);
  return take_next(deadline);
}

Result<Arrival> PutOwner::take_next(Deadline deadline) noexcept {
  const std::uint64_t wanted = received_ + 1;
  const std::uint64_t started_ns = local_.recorder.start();
  Status awaited = await(wanted, deadline);
  if (streams_made_) [[unlikely]] {
    if (awaited.ok()) awaited = come_after_streams(deadline);
    if (streams_made_->is_failed()) {
      const std::lock_guard lock(streams_made_->mutex);
      return resume();
    }
  }
  if (!awaited.ok()) [[unlikely]]
    return hinted_for(deadline, std::move(awaited));
  if (dynamic()) return hinted_for(deadline, read_dynamic(wanted, deadline));
  if (buffers_.is_staged(wanted)) [[unlikely]]
    if (Status status = unstage(wanted, deadline); !status.ok()) return status;
  received_ = wanted;
  const Tensor& tensor = buffers_.tensor(buffer_, wanted);
  pass_buffer();
  counters_.transfers.add(1);
  counters_.bytes_moved.add(buffers_.tensor_bytes());
  local_.recorder.data(stats::Event::arrived, last_writer_.load(std::memory_order_relaxed), id_,
                       wanted, buffers_.tensor_bytes(), started_ns);
  held_.handed_out();
  return SlotAccess::received(*this, tensor, wanted);
}

Status PutOwner::wrong_arrival(std::uint64_t wanted, std::uint64_t seen) const {
  return altered(
      failure(
          Code::flow_overrun, "wait",
          fmt::format("tensor {} was overwritten by tensor {} before it was read", wanted, seen),
          "the loop does not guarantee consumption: use Flow::credits"),
      [&](ErrorDetail& detail) { detail.peer = last_writer_.load(std::memory_order_acquire); });
}

p2p::Awaited PutOwner::awaited() const {
  p2p::Awaited awaited{.slot = spec_.name,
                       .peer = last_writer_.load(std::memory_order_acquire),
                       .sequence = received_ + 1,
                       .lack = "no writer has attached"};
  if (awaited.peer < 0) return awaited;
  awaited.host = mesh_.peer(awaited.peer).host();
  if (const std::string refused = refused_put_.of(awaited.sequence); !refused.empty())
    awaited.lack = fmt::format("rank {} (host {}) tried to put it, and was refused: {}",
                               awaited.peer, awaited.host, refused);
  else
    awaited.lack = fmt::format("nothing came from rank {} (host {}){}", awaited.peer, awaited.host,
                               mesh_.suspicion(awaited.peer));
  if (const std::uint64_t held = first_held(); held != 0 && received_ - held + 1 >= spec_.depth)
    awaited.lack +=
        fmt::format("; this rank has not released tensor {}, so that no buffer is free", held);
  return awaited;
}

Status PutOwner::wait_failure(WaitEnd end, std::uint64_t wanted) noexcept {
  if (refused_.is_kept()) return refused_.take();
  const int writer = last_writer_.load(std::memory_order_acquire);
  Status peer_status = needs_.status();
  if (peer_status.ok() && writer >= 0) peer_status = mesh_.peer_status(writer);
  if (end != WaitEnd::broken || peer_status.ok()) {
    local_.recorder.control(stats::Event::timeout, writer, id_, wanted);
    peer_status = refuse(Code::timeout, [&] {
      return ErrorDetail{.message = awaited().lack,
                         .hint = "is the writer at the same step? a longer deadline: WEFT_TIMEOUT",
                         .peer = writer,
                         .host = writer < 0 ? std::string() : mesh_.peer(writer).host()};
    });
  }
  return altered(peer_status, [&](ErrorDetail& detail) {
    detail.operation = "wait";
    detail.slot = spec_.name;
    detail.rank = local_.rank;
    detail.sequence_expected = wanted;
    detail.sequence_seen = wanted - 1;
  });
}

void PutOwner::release(std::uint64_t sequence, const std::uint32_t* outcome) noexcept {
  if (sequence == 0) [[unlikely]]
    return forget_graph_wait(outcome);
  local_.recorder.data(stats::Event::released, -1, id_, sequence);
  if (dynamic()) return dynamic_.forget(sequence);
  if (streams_made_) [[unlikely]] {
    if (!release_by_streams(sequence, outcome)) return;
  } else {
    released_.release(sequence, received_);
  }
  if (!credits_.kept()) return;
  if (const std::uint64_t unreported =
          released_.all(std::memory_order_relaxed) - credits_.reported();
      unreported >= credits_.when_pressed() &&
      (unreported + 1 >= spec_.depth || !may_put_credit_off()))
    write_credit(credits_.when_pressed(), p2p::Notify::deferred);
  os::light_barrier();  // credit_wanted() announces what is wanted, then looks at released_
  if (credits_.is_wanted(released_.all(std::memory_order_relaxed))) [[unlikely]]
    write_wanted_credit();
}

void PutOwner::write_wanted_credit() noexcept {
  if (credits_.take_wanted(released_)) write_credit(1, p2p::Notify::always);
}

void PutOwner::write_credit(std::uint64_t threshold, p2p::Notify notify) noexcept {
  Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || !attachment->gate.enter()) return;
  if (const std::uint64_t id = attachment->id.load(std::memory_order_relaxed); !credits_.told(id))
    credits_.begin_writer(id, attachment->released_at_attach);
  // On any thread, the application's reads of the buffers come before the credit.
  std::uint64_t all = released_.all(std::memory_order_acquire);
  if (all - credits_.reported() >= threshold) {
    attachment->peer->channel->put_word(attachment->credit_word, all, notify);
    if (streams_made_) [[unlikely]]
      all = report_what_streams_release(*attachment, all, notify);
    counters_.credit_writes.add(1);
    local_.recorder.data(stats::Event::credit_written, attachment->peer->rank, id_, all);
    credits_.report(all);
  }
  attachment->gate.leave();
}

std::uint64_t PutOwner::report_what_streams_release(const Attachment& attachment,
                                                    std::uint64_t reported,
                                                    p2p::Notify notify) noexcept {
  for (;;) {
    p2p::full_barrier();  // the word is out before the count is looked at once more
    const std::uint64_t all = released_.all(std::memory_order_seq_cst);
    if (all == reported) return all;
    attachment.peer->channel->put_word(attachment.credit_word, all, notify);
    reported = all;
  }
}

bool PutOwner::may_put_credit_off() const noexcept {
  // The writers of slots that always ring look whether they may put, and then ask for nothing.
  if (notify_ == p2p::Notify::always) return false;
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  return credits_.when_idle() > 1 && attachment != nullptr &&
         credits_.told(attachment->id.load(std::memory_order_relaxed)) &&
         received_ - credits_.reported() < spec_.depth &&
         attachment->peer->channel->capabilities().words_take_requests;
}

void PutOwner::flush_credit() noexcept {
  if (!credits_.kept()) return;
  // A writer that may be out of credits needs to hear of less than half the depth, too.
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  const bool new_writer =
      attachment != nullptr && !credits_.told(attachment->id.load(std::memory_order_relaxed));
  if (new_writer || received_ - credits_.reported() >= spec_.depth ||
      spec_.depth <= p2p::kReportsAllUpTo)
    return write_credit(1, p2p::Notify::always);
  // This writer has credits left, as far as is known here. If it has used them up, it asks.
  write_credit(credits_.when_idle(), p2p::Notify::optional);
}

void PutOwner::allocate_with(AllocateTensor allocate) {
  if (!dynamic())
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "allocate_with",
                            .message = "this slot's tensors lie in its own buffers",
                            .hint = "expose it with Placement::dynamic",
                            .slot = spec_.name});
  dynamic_.allocate_with(std::move(allocate));
}

Result<Arrival> PutOwner::read_dynamic(std::uint64_t wanted, Deadline deadline) noexcept {
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (!dynamic_.is_reading(wanted))
    if (Status status = begin_dynamic(wanted, until); !status.ok()) return status;
  const int from = dynamic_.source();
  if (const Status status = dynamic_.read(until); !status.ok()) {
    // After a timeout the reading goes on, and the next wait takes it up.
    if (status.code() == Code::timeout) return status;
    dynamic_.finish(false);
    // exhausted: the tensor stays with its writer, and the next wait tries again. Another error
    // lasts: it is told once, and the tensor is passed over.
    if (status.code() != Code::exhausted) pass(wanted);
    return status;
  }
  const Tensor& tensor = dynamic_.finish(true);
  pass(wanted);
  counters_.transfers.add(1);
  local_.recorder.data(stats::Event::arrived, from, id_, wanted);
  held_.handed_out();
  return SlotAccess::received(*this, tensor, wanted);
}

Status PutOwner::begin_dynamic(std::uint64_t wanted, Deadline until) noexcept {
  dynamic_.end();
  p2p::DynamicRecord record;
  // Copied first: the writer can still write what it has put.
  std::memcpy(&record, buffers_.payload(buffer_, wanted), buffers_.tensor_bytes());
  record = p2p::copy_once<p2p::DynamicRecord>(&record);
  const auto shape = p2p::shape_of(record, spec_.shape.dims(), local_.size);
  if (!shape) {
    const int writer = last_writer_.load(std::memory_order_acquire);
    pass(wanted);
    return altered(failure(Code::system, "wait",
                           formatted("rank {} announced a tensor that can't be one", writer),
                           "this is a defect of weft: please report it with WEFT_LOG=debug"),
                   [&](ErrorDetail& detail) { detail.peer = writer; });
  }
  // Before room is made: the size of a tensor that lies nowhere is not believed.
  if (Status found = dynamic_.find(wanted, record, *shape, until); !found.ok()) {
    if (found.code() != Code::timeout) pass(wanted);
    return found;
  }
  return dynamic_.begin(wanted, record, *shape);
}

void PutOwner::pass(std::uint64_t sequence) noexcept {
  received_ = sequence;
  pass_buffer();
  released_.pass(sequence);
  write_credit(1, p2p::Notify::always);
  if (draining_.load(std::memory_order_seq_cst)) [[unlikely]]
    local_.progress.post([self = weak_from_this().lock()] {
      if (self) self->let_drained_go();
    });
}

EdgeReport PutOwner::report() const {
  EdgeReport edge;
  edge.slot = spec_.name;
  edge.role = Role::receives;
  edge.peer = last_writer_.load(std::memory_order_acquire);
  if (edge.peer >= 0) edge.fabric = p2p::name(mesh_.peer(edge.peer).channel->fabric());
  edge.counters = row_.read_counters();
  using p2p::cuda::GpuWay;
  const bool has_gpu = buffers_.gpu() != nullptr;
  const GpuWay way = has_gpu ? buffers_.gpu()->offer().way() : dynamic_.way();
  if (has_gpu || way == GpuWay::nic || edge.counters.staged_bytes != 0) {
    edge.way = way == GpuWay::mapped ? "mapped" : way == GpuWay::nic ? "gpudirect" : "staged";
    edge.reason = p2p::cuda::reason_of(way);
  }
  return edge;
}

}  // namespace weft::detail
