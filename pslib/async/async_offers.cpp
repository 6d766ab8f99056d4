// Transfer of a shard's whole state from its primary to a replica that can't follow its records.
#include "pslib/async/async_server.hpp"
#include "pslib/table/slot_words.hpp"

namespace weft::pslib {
namespace {

bool has_ended(Code code) {
  return code == Code::peer_failed || code == Code::peer_left || code == Code::closed;
}

}  // namespace

Status AsyncServer::offer(Held& held) {
  const std::size_t bytes = OfferWords::kBytes + held.state->snapshot_bytes();
  if (!held.offer) held.offer = world_.expose_published(table_.snapshot(held.shard, bytes));
  auto buffer = held.offer->next(until());
  if (!buffer) return buffer.status();
  store_word(buffer->data(), OfferWords::kEpoch, held.replica.epoch());
  store_word(buffer->data(), OfferWords::kNumber, held.replica.message().number);
  held.state->save(buffer->data() + OfferWords::kBytes);
  if (Status status = held.offer->publish(); !status) return status;
  held.replica.offered();
  return {};
}

// It is no error if the primary dies meanwhile, for the next epoch has a new one, or if the primary
// has entered the next epoch and withdrawn its offer of this one.
Result<bool> AsyncServer::fetch(Held& held) {
  const std::size_t primary = held.replica.primary();
  const int rank = table_.roles.servers[primary];
  const std::size_t bytes = OfferWords::kBytes + held.state->snapshot_bytes();
  try {
    if (!held.offers.contains(primary))
      held.offers.emplace(
          primary,
          Offer{world_.attach_published(rank, table_.snapshot(held.shard, bytes), until()), {}});
  } catch (const Error& error) {
    if (has_ended(error.detail().code)) return false;
    throw;
  }
  Offer& offer = held.offers.at(primary);
  if (Status status = look_for_offer(held, offer); !status) {
    if (has_ended(status.code())) return false;
    return status;
  }
  const std::byte* const from = offer.arrival.tensor().data();
  if (load_word(from, OfferWords::kEpoch) > held.replica.epoch()) return false;
  const std::uint64_t number = load_word(from, OfferWords::kNumber);
  Status status = held.state->load(from + OfferWords::kBytes, rank);
  offer.arrival = {};
  if (!status) return status;
  held.replica.fetched(number);
  return true;
}

// Waits for the first offer of this epoch or a later one.
Status AsyncServer::look_for_offer(const Held& held, Offer& offer) {
  const auto is_old = [&] {
    return !offer.arrival ||
           load_word(offer.arrival.tensor().data(), OfferWords::kEpoch) < held.replica.epoch();
  };
  while (is_old()) {
    offer.arrival = {};
    auto arrival = offer.slot.view(until());
    if (!arrival) return arrival.status();
    offer.arrival = *std::move(arrival);
  }
  return {};
}

}  // namespace weft::pslib
