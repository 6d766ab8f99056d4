// The members that a call between hosts exchanges messages with, and the links to them.
#include <algorithm>

#include "runtime/collective/slot_group.hpp"

namespace weft::detail {

using Partner = BetweenHosts::Partner;

void SlotGroup::find_partners(PlannedCall& call) const {
  // Only two ranks know the counts of such a call's parts. If they disagree, both must see it by
  // the first piece, and so expect it by the same slot.
  const bool by_rank = call.task.signature.count < 0;
  std::vector<Partner>& partners = call.between.partners;
  const auto add = [&](int rank, std::size_t largest_out, std::size_t largest_in) {
    if (largest_out == 0 && largest_in == 0) return;
    const auto width = [&](std::size_t largest) {
      if (call.on_device) return SlotLink::Width::narrow;
      return by_rank ? SlotLink::Width::wide : SlotLink::width_of(largest);
    };
    partners.push_back({rank,
                        {.sends = largest_out > 0,
                         .takes = largest_in > 0,
                         .out = width(largest_out),
                         .in = width(largest_in),
                         .gpu = call.on_device ? gpu_.get() : nullptr}});
  };
  if (const auto& rounds = call.between.rounds) {
    for (const int rank : rounds->peers())
      add(rank, rounds->largest_to(rank), rounds->largest_from(rank));
    std::ranges::sort(partners, {}, [this](const Partner& partner) { return turn(partner.rank); });
    return;
  }
  for (int i = 1; i < size(); ++i) {
    const int rank = (me_ + i) % size();
    add(rank, sending(call, rank).piece_schedule.largest(),
        taking(call, rank).piece_schedule.largest());
  }
}

const Partner* SlotGroup::partner(const PlannedCall& call, int rank) const noexcept {
  const auto& partners = call.between.partners;
  const auto found = std::ranges::lower_bound(
      partners, turn(rank), {}, [this](const Partner& partner) { return turn(partner.rank); });
  return found == partners.end() || found->rank != rank ? nullptr : &*found;
}

void SlotGroup::open_links(const PlannedCall& call) {
  const auto is_open = [this](const Partner& partner) {
    const SlotLink* const link = this->link(partner.rank);
    return link != nullptr && link->is_open(partner.widths);
  };
  // In a forked process every call is refused once it is started.
  if (local_.over() || std::ranges::all_of(call.between.partners, is_open)) return;
  for (const Partner& partner : call.between.partners) {
    const p2p::Peer& peer = mesh_.peer(ranks_[static_cast<std::size_t>(partner.rank)]);
    // The call fails once it is started.
    if (is_open(partner) || peer.gone()) continue;
    try {
      add_link(partner.rank).open(partner.widths);
    } catch (const Error&) {
      if (!peer.gone()) throw;
    }
  }
}

SlotLink& SlotGroup::add_link(int rank) {
  auto& link = links_[static_cast<std::size_t>(rank)];
  if (link) return *link;
  auto made = std::make_unique<SlotLink>(
      local_, slots_, link_name_, ranks_[static_cast<std::size_t>(rank)], choices_.piece, copied_);
  const auto at =
      std::ranges::lower_bound(linked_, turn(rank), {}, [this](int r) { return turn(r); });
  linked_.insert(at, rank);
  link = std::move(made);
  return *link;
}

void SlotGroup::exchange(PlannedCall& call) noexcept {
  const PieceHead head{
      .word = call.number << 32 | call.mark, .total = 0, .signature = call.task.signature};
  combined_ = 0;
  combined_pieces_ = 0;
  auto& rounds = call.between.rounds;
  if (rounds) rounds->restart();
  if (call.on_device) begin_on_gpu(call);
  std::size_t reached = 0;
  for (const int r : linked_) {
    const Partner* const partner = this->partner(call, r);
    const SlotLink::Widths widths = partner == nullptr ? SlotLink::Widths{} : partner->widths;
    if (partner != nullptr && link(r)->is_open(widths)) ++reached;
    if (rounds)
      link(r)->expect(head, widths, {.by_put = rounds->bytes_to(r)},
                      {.by_hold = rounds->bytes_from(r)});
    else if (partner != nullptr)
      link(r)->expect(head, widths, sending(call, r), taking(call, r));
    else
      link(r)->expect(head, widths, SlotLink::Sending{}, SlotLink::Taking{});
  }
  reaches_all_ = reached == call.between.partners.size();
  may_open_ = true;
}

void SlotGroup::help_to_open() noexcept {
  if (!may_open_) return;
  may_open_ = false;
  for (const int r : linked_) may_open_ = link(r)->opens() || may_open_;
  if (may_open_) local_.progress.help();
}

// Pieces that a member has put before it closed the group still arrive.
bool SlotGroup::needs_more(const PlannedCall& call, int member) noexcept {
  if (is_in_agreement(call)) {
    // It has made the call by host memory, or never makes it, which that way finds out.
    if (said(call, member) == GpuWord::none) hear_word(member, call, GpuWord::later);
    return false;
  }
  if (!sends_to(call, member)) return false;
  return link(member) == nullptr || link(member)->opens();
}

bool SlotGroup::takes_from(const PlannedCall& call, int rank) const noexcept {
  if (is_in_agreement(call)) return awaits_word(call, rank);
  if (call.between.rounds) return call.between.rounds->takes_from(rank);
  if (link(rank) != nullptr) return !link(rank)->taken();
  const Partner* const partner = this->partner(call, rank);
  return partner != nullptr && partner->widths.takes;
}

bool SlotGroup::has_part_of(const PlannedCall& call, int member) const noexcept {
  if (is_in_agreement(call)) return said(call, member) != GpuWord::none;
  if (call.between.rounds) return call.between.rounds->has_part_of(member);
  return link(member) != nullptr && link(member)->has_part();
}

bool SlotGroup::sends_to(const PlannedCall& call, int rank) const noexcept {
  if (is_in_agreement(call)) return false;
  if (call.between.rounds) return call.between.rounds->sends_to(rank);
  if (link(rank) != nullptr) return !link(rank)->all_put();
  const Partner* const partner = this->partner(call, rank);
  return partner != nullptr && partner->widths.sends;
}

}  // namespace weft::detail
