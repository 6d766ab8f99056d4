#include "p2p/message/incoming_ring.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "p2p/memory/copy_once.hpp"

namespace weft::p2p::message {

IncomingRing::IncomingRing(LocalRank& local, Peer& peer, Geometry geometry)
    : local_(local),
      peer_(peer),
      geometry_(geometry),
      block_(local.control, geometry.bytes()),
      longs_(block_.data() + geometry.cell_bytes()),
      next_cell_(&cell(0)),
      arrived_(geometry.cells),
      number_(local.stats->other_number()),
      row_(local.stats, {.name = "messages",
                         .slot = number_,
                         .role = Role::receives,
                         .fabric = peer.channel ? p2p::name(peer.channel->fabric()) : "",
                         .peer = peer.rank}),
      counters_(row_.counters()) {
  for (std::uint32_t i = 0; i < geometry.cells; ++i) new (&cell(i)) Cell{};
}

void IncomingRing::grant(const RingWanted& wanted, RingGranted& granted) {
  const auto words = peer_.channel->resolve(wanted.words);
  if (!words.ok()) words.status().or_throw();
  if (sort_of_chunk(wanted.words.chunk) != ArenaSort::control || wanted.words.offset % 64 != 0 ||
      wanted.words.bytes != sizeof(SenderWords))
    throw Error(ErrorDetail{.code = Code::system,
                            .operation = "send",
                            .message = "the sender's words do not lie in its control arena"});
  words_there_ = *words;
  granted.ring = {block_.block().chunk, block_.block().offset, geometry_.bytes()};
  granted.notification_id = peer_.channel->expect({.words = block_.data(),
                                                   .count = geometry_.cells,
                                                   .stride = sizeof(Cell),
                                                   .in_turn = true,
                                                   .last = 0,
                                                   .places = {granted.ring}});
  granted.geometry = geometry_;
}

Arrived* IncomingRing::take() noexcept {
  const Cell& cell = *next_cell_;
  const std::uint64_t sequence = taken_ + 1;
  if (spoilt_) return nullptr;
  if (cell.word.load(std::memory_order_relaxed) != sequence) return spoil("a message out of turn");
  Arrived& arrived = arrived_[index_];
  // Copy the head before checking it: the sender can still write it.
  Head head = copy_once<Head>(&cell.head);
  Place place = Place::cell;
  arrived.data = cell.payload;
  if (head.sequence != sequence) {
    const std::byte* const from = longs_ + next_long_ * Geometry::long_stride();
    head = copy_once<Head>(from);
    place = Place::long_buffer;
    arrived.data = from + sizeof head;
  }
  if (const char* const fault = fault_of(head, sequence, place)) return spoil(fault);
  if (head.kind() == Kind::offered) {
    arrived.offer = copy_once<Offer>(cell.payload);
    if (const char* const fault = fault_of(arrived.offer)) return spoil(fault);
    arrived.data = nullptr;
  }
  if (place == Place::long_buffer)
    next_long_ = next_long_ + 1 == geometry_.longs ? 0 : next_long_ + 1;
  arrived.sequence = sequence;
  arrived.tag = head.tag;
  arrived.bytes = head.bytes();
  arrived.kind = head.kind();
  arrived.dtype = head.dtype();
  arrived.gone = false;
  taken_ = sequence;
  index_ = index_ + 1 == geometry_.cells ? 0 : index_ + 1;
  next_cell_ = &this->cell(index_);
  return &arrived;
}

Arrived* IncomingRing::spoil(const char* what) noexcept {
  spoilt_ = true;
  local_.log->error(Subsystem::slot, "rank {} sent {}: nothing more is received from it",
                    peer_.rank, what);
  return nullptr;
}

void IncomingRing::keep(Arrived& arrived, std::uint64_t order) noexcept {
  arrived.order = order;
  Arrived* before = last_;
  while (before != nullptr && before->order > order) before = before->previous;
  Arrived*& behind = before != nullptr ? before->next : first_;
  arrived.previous = before;
  arrived.next = behind;
  (behind != nullptr ? behind->previous : last_) = &arrived;
  behind = &arrived;
}

void IncomingRing::drop(Arrived& arrived) noexcept {
  (arrived.previous != nullptr ? arrived.previous->next : first_) = arrived.next;
  (arrived.next != nullptr ? arrived.next->previous : last_) = arrived.previous;
}

Arrived* IncomingRing::find(const Tag& tag) const noexcept {
  Arrived* arrived = first_;
  while (arrived != nullptr && !tag.takes(arrived->tag)) arrived = arrived->next;
  return arrived;
}

void IncomingRing::copy_out(Arrived& arrived, std::byte* into) noexcept {
  if (arrived.bytes == sizeof(std::uint64_t))
    std::memcpy(into, arrived.data, sizeof(std::uint64_t));
  else if (arrived.bytes != 0)
    std::memcpy(into, arrived.data, arrived.bytes);
  counters_.transfers.add(1);
  counters_.bytes_moved.add(arrived.bytes);
  counters_.bytes_copied.add(arrived.bytes);
  local_.recorder.data(stats::Event::received, peer_.rank, number_, arrived.sequence,
                       arrived.bytes);
  release(arrived);
}

void IncomingRing::acknowledge(const Arrived& arrived) noexcept {
  if (peer_.gone()) return;
  const std::uint64_t offset =
      offsetof(SenderWords, acks) + arrived.offer.ack * sizeof(std::uint64_t);
  peer_.channel->put_word(at(words_there_, offset), arrived.sequence, Notify::always);
  counters_.credit_writes.add(1);
}

void IncomingRing::release(Arrived& arrived) noexcept {
  arrived.gone = true;
  bool moved = false;
  while (released_ < taken_ && arrived_[released_index_].gone) {
    if (arrived_[released_index_].kind == Kind::in_long) ++longs_released_;
    ++released_;
    released_index_ = released_index_ + 1 == geometry_.cells ? 0 : released_index_ + 1;
    moved = true;
  }
  if (moved && (2 * (released_ - reported_) >= geometry_.cells ||
                2 * longs_released_ >= geometry_.longs)) [[unlikely]]
    report();
}

void IncomingRing::report() noexcept {
  reported_ = released_;
  longs_released_ = 0;
  if (peer_.gone()) return;
  peer_.channel->put_word(words_there_, released_, Notify::deferred);
  counters_.credit_writes.add(1);
}

}  // namespace weft::p2p::message
