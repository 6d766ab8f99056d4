// How two ranks of a host believe each other, and what they say from then on.
#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/os/asymmetric_barrier.hpp"
#include "p2p/shm/shm_fabric.hpp"

namespace weft::p2p {

void ShmFabric::send_hello(Link& link, const Partner& partner, MessageType type, bool reaches) {
  const Block& bell = local_.bell_block();
  HelloMessage hello;
  hello.type = type;
  hello.from = local_.rank;
  hello.to = partner.rank;
  hello.barrier_before_sleep = local_.waiter.policy().barrier_before_sleep ? 1 : 0;
  hello.control_bytes = local_.control->chunk_bytes(bell.chunk);
  hello.doorbell_offset = bell.offset;
  hello.probe = reinterpret_cast<std::uint64_t>(&probe_);
  hello.reaches = reaches ? 1 : 0;
  hello.mac = mac(local_.rank, partner.rank);
  const std::array<int, 2> descriptors = {local_.control->chunk_fd(bell.chunk).get(),
                                          local_.bell_event().get()};
  link.send(hello, descriptors);
}

std::array<std::byte, 32> ShmFabric::mac(int from, int to) const {
  static_assert(crypto_auth_BYTES == 32 && crypto_auth_KEYBYTES == 32);
  const std::array<std::int32_t, 3> said = {static_cast<std::int32_t>(RankAddress::kVersion), from,
                                            to};
  std::array<std::byte, 32> tag{};
  crypto_auth(reinterpret_cast<unsigned char*>(tag.data()),
              reinterpret_cast<const unsigned char*>(said.data()), sizeof said,
              reinterpret_cast<const unsigned char*>(job_secret_.data()));
  return tag;
}

std::string ShmFabric::distrust(const HelloMessage& hello, const Link& link,
                                std::size_t descriptors) const {
  if (hello.version != RankAddress::kVersion)
    return fmt::format("it speaks version {}, this rank {}", hello.version, RankAddress::kVersion);
  if (hello.to != local_.rank || hello.from < 0 || hello.from >= local_.size)
    return fmt::format("it says it is rank {} calling rank {}", hello.from, hello.to);
  const RankAddress& known = partners_[static_cast<std::size_t>(hello.from)].address;
  if (link.peer_pid() != known.pid || link.peer_uid() != known.uid)
    return fmt::format("it is pid {}, and rank {} is pid {}", link.peer_pid(), hello.from,
                       known.pid);
  const auto expected = mac(hello.from, hello.to);
  if (sodium_memcmp(expected.data(), hello.mac.data(), expected.size()) != 0)
    return "it does not know the job's secret";
  if (descriptors != 2 || hello.doorbell_offset % alignof(Doorbell) != 0 ||
      hello.control_bytes < sizeof(Doorbell) ||
      hello.doorbell_offset > hello.control_bytes - sizeof(Doorbell))
    return "its hello is malformed";
  return {};
}

void ShmFabric::on_message(Link& link, std::span<const std::byte> bytes,
                           std::vector<os::Fd> descriptors) {
  MessageType type{};
  if (bytes.size() < sizeof type) return;
  std::memcpy(&type, bytes.data(), sizeof type);
  if (link.rank < 0 || type == MessageType::welcome)
    return on_introduction(link, bytes, std::move(descriptors));
  Partner& partner = partners_[static_cast<std::size_t>(link.rank)];
  if (partner.channel == nullptr) return;
  if (type == MessageType::chunk)
    on_chunk(partner, bytes, std::move(descriptors));
  else if (type == MessageType::adopted || type == MessageType::forget ||
           type == MessageType::reaches)
    on_adopted(partner, bytes);
  else
    events_.message(link.rank, bytes);
}

void ShmFabric::on_introduction(Link& link, std::span<const std::byte> bytes,
                                std::vector<os::Fd> descriptors) {
  const bool stranger = link.rank < 0;
  const auto hello = parse<HelloMessage>(bytes);
  const std::string reason =
      hello ? distrust(*hello, link, descriptors.size()) : "it does not say hello";
  if (!reason.empty()) {
    local_.log->warn(Subsystem::path, "a process (pid {}) was turned away: {}", link.peer_pid(),
                     reason);
    if (stranger) drop_stranger(link);
    return;
  }
  Partner& partner = partners_[static_cast<std::size_t>(hello->from)];
  if (stranger) {
    const auto held = std::find_if(strangers_.begin(), strangers_.end(),
                                   [&](const auto& l) { return l.get() == &link; });
    if (held == strangers_.end()) return;
    partner.links.push_back(std::move(*held));
    strangers_.erase(held);
    link.rank = partner.rank;
  }
  greet(partner, link, *hello, std::move(descriptors));
}

void ShmFabric::greet(Partner& partner, Link& link, const HelloMessage& hello,
                      std::vector<os::Fd> descriptors) {
  if (partner.channel != nullptr) return;  // the welcome to oneself
  try {
    auto control = local_.mapper->map(descriptors[0], hello.control_bytes, Access::write);
    const bool ring_needs_fence = hello.barrier_before_sleep == 0 || !os::joins_global_barriers();
    auto channel =
        std::make_unique<ShmChannel>(local_, link, std::move(control), hello.doorbell_offset,
                                     std::move(descriptors[1]), ring_needs_fence);
    const bool reaches =
        channel->find_reach(partner.address.pid, hello.probe, cross_memory_ && hello.probe != 0);
    if (hello.type == MessageType::welcome) {
      channel->reached_by_peer(hello.reaches != 0);
      link.send(ReachesMessage{.reaches = reaches ? 1U : 0U});
    } else {
      // To oneself, the same holds both ways.
      channel->reached_by_peer(reaches && partner.rank == local_.rank);
      send_hello(link, partner, MessageType::welcome, reaches);
    }
    if (!reaches)
      local_.log->info(Subsystem::path, "memory adopted by rank {} is staged: {}", partner.rank,
                       cross_memory_ ? "the kernel does not let this process reach into it"
                                     : "WEFT_CROSS_MEMORY=off");
    partner.channel = channel.get();
    events_.connected(partner.rank, std::move(channel));
  } catch (const Error& error) {
    events_.short_of(error);
  }
}

void ShmFabric::on_adopted(Partner& partner, std::span<const std::byte> bytes) {
  if (const auto region = parse<AdoptedMessage>(bytes);
      region && region->type == MessageType::adopted) {
    partner.channel->add_adopted(*region);
    local_.ring();  // somebody may wait for just this memory
  }
  if (const auto gone = parse<ForgetMessage>(bytes); gone && gone->type == MessageType::forget)
    partner.channel->forget_adopted(gone->chunk);
  if (const auto said = parse<ReachesMessage>(bytes); said && said->type == MessageType::reaches)
    partner.channel->reached_by_peer(said->reaches != 0);
}

void ShmFabric::on_chunk(Partner& partner, std::span<const std::byte> bytes,
                         std::vector<os::Fd> descriptors) {
  const auto chunk = parse<ChunkMessage>(bytes);
  if (!chunk) return;
  if (descriptors.size() != 1) {
    local_.log->error(
        Subsystem::path,
        "memory of rank {} came without its descriptor: raise the limit of open files "
        "(ulimit -n)",
        partner.rank);
    return;
  }
  try {
    const Access access =
        sort_of_chunk(chunk->chunk) == ArenaSort::published ? Access::read : Access::write;
    partner.channel->add_chunk(chunk->chunk,
                               local_.mapper->map(descriptors[0], chunk->bytes, access));
    local_.recorder.control(board::Event::chunk_mapped, partner.rank, 0, chunk->chunk);
    local_.ring();  // somebody may wait for just this chunk
  } catch (const Error& error) {
    local_.log->error(Subsystem::path, "mapping memory of rank {}: {}", partner.rank, error.what());
  }
}

}  // namespace weft::p2p
