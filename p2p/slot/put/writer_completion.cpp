// Puts that go on after their call: what is lent to them, until when, and how they end.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft::detail {
namespace {

/// A NIC gives up a put to a peer that does not answer well before.
constexpr std::chrono::seconds kMostWaited{20};

}  // namespace

PutWriter::Moving PutWriter::start_put(Moving moving, const p2p::PutWork& work) noexcept {
  const bool in_chunks = chunks_ && moving.ticket != 0 && chunks_->put.ticket == moving.ticket;
  const bool packed = in_chunks ? chunks_->put.block != nullptr
                                : work.source != nullptr && work.source == pack_.data();
  // A request of a dynamic slot ends when the owner has read.
  const bool awaited =
      !dynamic() && (moving.until == Until::delivered || (!work.source_is_free && !packed));
  if (!awaited && work.source_is_free) return moving;
  if (moving.ticket == 0) {
    const std::lock_guard lock(pending_.mutex());
    moving.ticket = pending_.skip();
  }
  moving.put_in_flight = &in_flight_.begin(moving.ticket, work.posted, awaited);
  moving.lent = !work.source_is_free && !packed && !dynamic();
  if (packed && !work.source_is_free) {
    if (in_chunks)
      moving.put_in_flight->block = chunks_->put.block;
    else
      moving.put_in_flight->packed = std::exchange(pack_, {});
  }
  return moving;
}

void PutWriter::follow(Moving moving, Request& request) noexcept {
  if (moving.lent) moving.put_in_flight->tensor = moving.parts.front();
  if (!moving.put_in_flight->awaited) return;
  SlotAccess::follow(request, *this, life_, moving.ticket);
}

bool PutWriter::is_in_flight(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_.mutex());
  in_flight_.poll(*owner_.channel);
  return in_flight_.holds_up(ticket);
}

Status PutWriter::in_flight_failure(const Status& why) const noexcept {
  if (Status peer_status = peer_failure("put"); !peer_status.ok()) return peer_status;
  return altered(why, [&](ErrorDetail& detail) {
    detail.operation = "put";
    detail.slot = spec_.name;
  });
}

bool PutWriter::has_completed() noexcept {
  const std::lock_guard lock(pending_.mutex());
  in_flight_.poll(*owner_.channel);
  return in_flight_.empty() && !(mapped_ && mapped_->is_copying());
}

void PutWriter::abandon() noexcept {
  if (!in_flight_.empty() &&
      !local_.waiter.wait_alone([this] { return has_completed(); }, kMostWaited)) {
    local_.log->warn(
        Subsystem::slot,
        "puts into slot \"{}\" of rank {} are still under way: what they read is never "
        "given back",
        spec_.name, owner_.rank);
    in_flight_.forget_for_ever();
    if (lending_) lending_->keep_records();
  }
  if (streams_) {
    const std::lock_guard lock(pending_.mutex());
    streams_->waiting.clear();
    if (streams_->graphs) streams_->graphs->end_all();
  }
  if (!lending_ || owner_.silent.load()) return;
  lending_->take_back(credits_.released());
  lending_->keep_adopted();
}

}  // namespace weft::detail
