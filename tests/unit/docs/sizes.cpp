// The sizes of a rank's objects. Some of these types are private members: an explicit instantiation
// may name them.
#include "tests/unit/docs/sizes.hpp"

#include <array>
#include <memory>
#include <vector>

#include "p2p/mesh/mesh_messages.hpp"
#include "p2p/mesh/peer.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/published/publisher.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/slot/put/owner.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/shm/link.hpp"
#include "p2p/transport/shm/shm_channel.hpp"
#include "p2p/transport/shm/shm_fabric.hpp"
#include "p2p/transport/shm/shm_messages.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "p2p/transport/verbs/verbs_channel.hpp"
#define WEFT_DOCS_VERBS 1
#endif

namespace weft::docs {
namespace {

template <typename Owner, typename Element>
constexpr std::size_t bytes_of(std::vector<Element> Owner::*) {
  return sizeof(Element);
}
template <typename Owner, typename Whole>
constexpr std::size_t bytes_of(std::unique_ptr<Whole> Owner::*) {
  return sizeof(Whole);
}

std::size_t partner_bytes();
template <auto Member>
struct PartnerBytes {
  friend std::size_t partner_bytes() { return bytes_of(Member); }
};
template struct PartnerBytes<&p2p::ShmFabric::partners_>;

std::size_t pending_bytes();
template <auto Member>
struct PendingBytes {
  friend std::size_t pending_bytes() { return bytes_of(Member); }
};
template struct PendingBytes<&p2p::PendingPuts::places_>;

#ifdef WEFT_DOCS_VERBS
std::size_t stripe_bytes();
template <auto Member>
struct StripeBytes {
  friend std::size_t stripe_bytes() { return bytes_of(Member); }
};
template struct StripeBytes<&p2p::verbs::StripeTable::stripes_>;

void add_verbs(Sizes& sizes) {
  sizes.verbs_channel = sizeof(p2p::verbs::VerbsChannel);
  sizes.stripe = stripe_bytes();
  sizes.queue_pair = sizeof(p2p::verbs::QueuePair);
}
#else
void add_verbs(Sizes&) {}
#endif

}  // namespace

Sizes sizes() {
  Sizes sizes{.address = sizeof(p2p::RankAddress),
              .cpus = sizeof(p2p::RankAddress::cpus),
              .peer = sizeof(p2p::Peer),
              .link = sizeof(p2p::Link),
              .channel = sizeof(p2p::ShmChannel),
              .partner = partner_bytes(),
              .slot = sizeof(detail::PutOwner),
              .published_slot = sizeof(detail::Publisher),
              .attachment = sizeof(detail::Attachment),
              .remote_slot = sizeof(detail::PutWriter),
              .reader = sizeof(detail::VersionReader),
              .pending = pending_bytes(),
              .messages = {sizeof(p2p::HandshakeMessage), sizeof(p2p::AnswerMessage),
                           sizeof(p2p::ConnectMessage), sizeof(p2p::AttachMessage),
                           sizeof(p2p::AttachedMessage), sizeof(p2p::ChunkMessage),
                           sizeof(p2p::LeavingMessage)}};
  add_verbs(sizes);
  return sizes;
}

}  // namespace weft::docs
