// The owner's data path: arrivals, credits, publishing.
#include "p2p/slot/slot_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::detail {
namespace {

using p2p::PublishedWords;
using p2p::SlotLine;
using p2p::WaitEnd;

std::size_t stride_for(const p2p::Contract& spec, std::size_t bytes, const Tensor& memory,
                       bool tails) {
  if (!memory.empty()) return bytes;
  if (spec.writer == p2p::Writer::peer && bytes <= SlotLine::kInlineBytes) return 0;
  return p2p::Heap::rounded(tails ? p2p::bytes_with_tail(bytes) : bytes);
}

}  // namespace

SlotState::SlotState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table,
                     p2p::Contract spec, std::uint64_t id, Tensor memory, p2p::Notify notify)
    : local_(local),
      mesh_(mesh),
      table_(table),
      spec_(std::move(spec)),
      id_(id),
      bytes_(p2p::payload_bytes(spec_)),
      memory_(std::move(memory)),
      notify_(notify),
      stride_(stride_for(spec_, bytes_, memory_,
                         spec_.writer == p2p::Writer::peer && notify_ == p2p::Notify::optional &&
                             mesh_.has_tails())),
      line_count_(spec_.writer == p2p::Writer::peer ? spec_.depth : 0),
      lines_(local_.control, spec_.writer == p2p::Writer::peer
                                 ? line_count_ * sizeof(SlotLine)
                                 : PublishedWords::bytes(spec_.depth)),
      credits_(spec_.flow == Flow::credits || local_.check_flow),
      report_idle_(spec_.flow == Flow::credits && !dynamic() ? (spec_.depth + 1) / 2 : 1),
      report_pressed_(spec_.flow == Flow::credits && !dynamic() &&
                              spec_.depth > p2p::kReportsAllUpTo
                          ? std::max<std::uint64_t>(report_idle_, spec_.depth - 2)
                          : 1),
      row_(local.stats,
           {.name = spec_.name,
            .slot = id,
            .role = spec_.writer == p2p::Writer::peer ? Role::receives : Role::publishes}),
      counters_(row_.counters()),
      released_early_(spec_.depth, 0) {
  place_buffers();
}

void SlotState::place_buffers() {
  if (stride_ != 0 && memory_.empty())
    buffers_ = p2p::OwnedBlock(spec_.writer == p2p::Writer::peer ? local_.data : local_.published,
                               stride_ * spec_.depth);
  for (std::size_t i = 0; i < line_count_; ++i) new (&line(i)) SlotLine{};
  if (spec_.writer == p2p::Writer::owner) {
    std::memset(lines_.data(), 0, PublishedWords::bytes(spec_.depth));
    published_words_ = PublishedWords(lines_.data());
  }
  if (dynamic()) return;
  std::byte* buffers = memory_.empty() ? buffers_.data() : memory_.data();
  for (std::size_t i = 0; i < spec_.depth; ++i)
    tensors_.push_back(Tensor::wrap(stride_ == 0 ? line(i).payload : buffers + i * stride_,
                                    spec_.dtype, spec_.shape));
}

void SlotState::unstage() noexcept {
  std::memcpy(tensors_[buffer_].data(), stage_.data() + buffer_ * p2p::Heap::rounded(bytes_),
              bytes_);
  counters_.bytes_copied.add(bytes_);
}

void SlotState::abandon() noexcept {
  for (const auto& attachment : attachments_) expect_no_more(*attachment);
  const bool written = std::ranges::any_of(
      attachments_, [](const auto& attachment) { return attachment->active.load(); });
  if (memory_.empty() || !written) return;
  local_.log->warn(Subsystem::slot,
                   "slot \"{}\" lies in adopted memory that its writer may still reach: the memory "
                   "is never given back (close the slot and leave() before the world goes)",
                   spec_.name);
  (void)new (std::nothrow) Tensor(std::move(memory_));  // on purpose: nobody may free it
}

bool SlotState::ready() const noexcept {
  const std::uint64_t wanted = received_ + 1;
  return sequence_at(buffer_) >= wanted;
}

bool SlotState::broken() const noexcept {
  if (refused_.load(std::memory_order_acquire)) return true;
  if (mesh_.gone_count() == 0) return false;
  const int writer = last_writer_.load(std::memory_order_acquire);
  return (writer >= 0 && mesh_.peer(writer).gone()) || !mesh_.peer_status(needs_, needed_).ok();
}

stats::WaitAbout SlotState::waits_for(std::uint64_t wanted) const noexcept {
  return {.operation = stats::Operation::wait,
          .peer = last_writer_.load(std::memory_order_acquire),
          .slot = id_,
          .sequence = wanted};
}

Status SlotState::await(std::uint64_t wanted, Deadline deadline) noexcept {
  const p2p::SlotLine& line = this->line(buffer_);
  std::uint64_t seen = line.sequence.load(std::memory_order_acquire);
  if (seen < wanted && tails_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    seen = sequence_at(buffer_);
  if (seen < wanted) {
    const auto arrived = [&] { return sequence_at(buffer_) >= wanted; };
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    if (!may_put_credit_off() || received_ - reported_ >= report_pressed_ ||
        !local_.waiter.comes_at_once(arrived, until.when()))
      flush_credit();
    const auto broken = [this] { return this->broken(); };
    const auto about = [&] { return waits_for(wanted); };
    WaitEnd end = WaitEnd::ready;
    if (writer_.load(std::memory_order_acquire) == nullptr) [[unlikely]] {
      // An attach comes next: this waiting thread serves it.
      const auto attached = [&] { return arrived() || writer_.load() != nullptr; };
      const auto helped = [&] {
        if (!attached()) local_.progress.help();
        return attached();
      };
      end = local_.waiter.wait(helped, broken, until, about);
    }
    if (end == WaitEnd::ready) end = local_.waiter.wait(arrived, broken, until, about);
    if (end != WaitEnd::ready) return wait_failure(end, wanted);
    seen = sequence_at(buffer_);
  }
  if (seen != wanted) [[unlikely]]
    return wrong_arrival(wanted, seen);
  return {};
}

Result<Arrival> SlotState::wait(Deadline deadline) noexcept {
  const std::uint64_t wanted = received_ + 1;
  const std::uint64_t started_ns = local_.recorder.start();
  if (Status status = await(wanted, deadline); !status.ok()) [[unlikely]]
    return status;
  if (dynamic()) return read_dynamic(wanted, deadline);
  if (wanted > staged_after_.load(std::memory_order_relaxed)) [[unlikely]]
    unstage();
  received_ = wanted;
  const p2p::TailBuffers* tails = arrived_with_tail(wanted);
  const Tensor& tensor = tails == nullptr ? tensors_[buffer_] : tails->tensor(buffer_);
  buffer_ = buffer_ + 1 == spec_.depth ? 0 : buffer_ + 1;
  counters_.transfers.add(1);
  counters_.bytes_moved.add(bytes_);
  local_.recorder.data(stats::Event::arrived, last_writer_.load(std::memory_order_relaxed), id_,
                       wanted, bytes_, started_ns);
  return SlotAccess::received(static_cast<PutOwner&>(*this), tensor, wanted);
}

Status SlotState::wrong_arrival(std::uint64_t wanted, std::uint64_t seen) const {
  ErrorDetail detail =
      failure(
          Code::flow_overrun, "wait",
          fmt::format("tensor {} was overwritten by tensor {} before it was read", wanted, seen),
          "the loop does not guarantee consumption: use Flow::credits")
          .detail();
  detail.peer = last_writer_.load(std::memory_order_acquire);
  return Status(std::move(detail));
}

p2p::Awaited SlotState::awaited() const {
  p2p::Awaited awaited{.slot = spec_.name,
                       .peer = last_writer_.load(std::memory_order_acquire),
                       .sequence = received_ + 1,
                       .lack = "no writer has attached"};
  if (awaited.peer < 0) return awaited;
  awaited.host = mesh_.peer(awaited.peer).host();
  awaited.lack = fmt::format("nothing came from rank {} (host {}){}", awaited.peer, awaited.host,
                             mesh_.suspicion(awaited.peer));
  return awaited;
}

Status SlotState::wait_failure(WaitEnd end, std::uint64_t wanted) noexcept {
  if (refused_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(refusal_mutex_);
    refused_.store(false, std::memory_order_release);
    return std::exchange(refusal_, {});
  }
  const int writer = last_writer_.load(std::memory_order_acquire);
  Status peer_status = mesh_.peer_status(needs_, needed_);
  if (peer_status.ok() && writer >= 0) peer_status = mesh_.peer_status(writer);
  ErrorDetail detail;
  if (end == WaitEnd::broken && !peer_status.ok()) {
    detail = peer_status.detail();
  } else {
    local_.recorder.control(stats::Event::timeout, writer, id_, wanted);
    detail.code = Code::timeout;
    detail.peer = writer;
    detail.message = awaited().lack;
    detail.hint = "is the writer at the same step? a longer deadline: WEFT_TIMEOUT";
  }
  detail.operation = "wait";
  detail.slot = spec_.name;
  detail.rank = local_.rank;
  detail.sequence_expected = wanted;
  detail.sequence_seen = wanted - 1;
  return Status(std::move(detail));
}

void SlotState::release(std::uint64_t sequence) noexcept {
  local_.recorder.data(stats::Event::released, -1, id_, sequence);
  if (dynamic()) return forget_dynamic(sequence);
  const std::uint64_t all = released_.load(std::memory_order_relaxed);
  if (sequence == all + 1 && sequence == received_) [[likely]]
    released_.store(sequence, std::memory_order_release);
  else
    release_out_of_order(sequence, all);
  if (!credits_) return;
  if (const std::uint64_t unreported = released_.load(std::memory_order_relaxed) - reported_;
      unreported >= report_pressed_ && (unreported + 1 >= spec_.depth || !may_put_credit_off()))
    write_credit(report_pressed_, p2p::Notify::deferred);
  os::light_barrier();  // credit_wanted() announces what is wanted, then looks at released_
  if (released_.load(std::memory_order_relaxed) >= wanted_from_.load(std::memory_order_relaxed))
      [[unlikely]]
    write_wanted_credit();
}

void SlotState::write_wanted_credit() noexcept {
  std::uint64_t wanted = wanted_from_.load(std::memory_order_seq_cst);
  if (released_.load(std::memory_order_acquire) < wanted) return;
  wanted_from_.compare_exchange_strong(wanted, kNothingWanted);
  write_credit(1, p2p::Notify::always);
}

void SlotState::release_out_of_order(std::uint64_t sequence, std::uint64_t all) noexcept {
  if (sequence != all + 1) {
    released_early_[buffer_of(sequence)] = 1;
    return;
  }
  ++all;
  while (all < received_ && released_early_[buffer_of(all + 1)] != 0)
    released_early_[buffer_of(++all)] = 0;
  released_.store(all, std::memory_order_release);
}

void SlotState::write_credit(std::uint64_t threshold, p2p::Notify notify) noexcept {
  Attachment* attachment = writer_.load(std::memory_order_acquire);
  if (attachment == nullptr || !attachment->gate.enter()) return;
  if (const std::uint64_t id = attachment->id.load(std::memory_order_relaxed);
      id != reported_attachment_) {
    reported_attachment_ = id;
    reported_ = attachment->released_at_attach;
  }
  // The application's reads of the buffers come before the credit, whichever thread writes it.
  const std::uint64_t all = released_.load(std::memory_order_acquire);
  if (all - reported_ >= threshold) {
    attachment->peer->channel->put_word(attachment->credit_word, all, notify);
    counters_.credit_writes.add(1);
    local_.recorder.data(stats::Event::credit_written, attachment->peer->rank, id_, all);
    reported_ = all;
  }
  attachment->gate.leave();
}

bool SlotState::may_put_credit_off() const noexcept {
  // The writers of slots that always ring look whether they may put, and then ask for nothing.
  if (notify_ == p2p::Notify::always) return false;
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  return report_idle_ > 1 && attachment != nullptr &&
         attachment->id.load(std::memory_order_relaxed) == reported_attachment_ &&
         received_ - reported_ < spec_.depth &&
         attachment->peer->channel->capabilities().words_take_requests;
}

void SlotState::flush_credit() noexcept {
  if (!credits_ || spec_.writer != p2p::Writer::peer) return;
  // A writer that may be out of credits needs to hear of less than half the depth, too.
  const Attachment* attachment = writer_.load(std::memory_order_acquire);
  const bool new_writer = attachment != nullptr &&
                          attachment->id.load(std::memory_order_relaxed) != reported_attachment_;
  if (new_writer || received_ - reported_ >= spec_.depth || spec_.depth <= p2p::kReportsAllUpTo)
    return write_credit(1, p2p::Notify::always);
  // This one has credits left, as far as is known here. If it has used them up, it asks.
  write_credit(report_idle_, p2p::Notify::optional);
}

Status SlotState::failure(Code code, const char* operation, std::string message,
                          std::string hint) const {
  return Status(ErrorDetail{.code = code,
                            .operation = operation,
                            .message = std::move(message),
                            .hint = std::move(hint),
                            .rank = local_.rank,
                            .slot = spec_.name});
}

EdgeReport SlotState::report() const {
  EdgeReport edge;
  edge.slot = spec_.name;
  edge.role = spec_.writer == p2p::Writer::peer ? Role::receives : Role::publishes;
  edge.peer = last_writer_.load(std::memory_order_acquire);
  const Attachment* reader = readers_.load(std::memory_order_acquire);
  if (edge.peer >= 0)
    edge.fabric = p2p::name(mesh_.peer(edge.peer).channel->fabric());
  else if (reader != nullptr)
    edge.fabric = p2p::name(reader->peer->channel->fabric());
  edge.counters = counters_.read();
  return edge;
}

}  // namespace weft::detail
