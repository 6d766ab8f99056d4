// Registered memory as a NIC uses it.
#pragma once

#include <cstdint>

#include "p2p/transport/verbs/fake/objects.hpp"

namespace weft::p2p::verbs::fake {

/// Whether the local stretch may be used so by work requests of the domain.
bool may_use(const FakeNic& nic, const ibv_pd* domain, const FakeSge& piece, int access);

/// Whether a peer may use the stretch so, by the key it was told, over this queue pair.
bool peer_may_use(const FakeQp& qp, std::uint64_t address, std::uint64_t length, std::uint32_t key,
                  int access);

/// Copies as a NIC does: words of 8 aligned bytes appear whole, in the order of their addresses.
/// Either side may be polled, or set, by atomic accesses meanwhile.
void copy_words(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept;

/// The same between memory of either kind. `gpus`: null if there are none.
void copy_between(GpuMemory* gpus, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

/// The bytes from `begin` to `end` of the payload, to its peer or (a read) from it.
void copy_payload(GpuMemory* gpus, const Send& send, std::uint64_t begin, std::uint64_t end);

/// All of the payload, into what a receive names. Its pieces must be large enough.
void copy_to_receive(const Send& send, const Receive& receive) noexcept;

}  // namespace weft::p2p::verbs::fake
