// How two ranks of a host authenticate each other, and what they say from then on.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/os/asymmetric_barrier.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/shm/shm_fabric.hpp"

namespace weft::p2p {
namespace {

using Stage = Link::Wireup::Stage;

/// A connect message carries that of the control arena's first chunk and that of the bell.
constexpr std::size_t kConnectDescriptors = 2;

bool is_sound(const ConnectMessage& message) {
  return message.doorbell_offset % alignof(Doorbell) == 0 &&
         message.control_bytes >= sizeof(Doorbell) &&
         message.doorbell_offset <= message.control_bytes - sizeof(Doorbell);
}

}  // namespace

void ShmFabric::send_connect(Link& link, MessageType type, bool reaches) {
  const Block& bell = local_.bell_block();
  ConnectMessage message;
  message.type = type;
  message.barrier_before_sleep = local_.waiter.policy().barrier_before_sleep ? 1 : 0;
  message.control_bytes = local_.control->chunk_bytes(bell.chunk);
  message.doorbell_offset = bell.offset;
  message.probe = reinterpret_cast<std::uint64_t>(&probe_);
  message.reaches = reaches ? 1 : 0;
  if (type == MessageType::connect)
    message.proof = identity_.prove(link.wireup.client, link.wireup.server);
  const std::array<int, 2> descriptors = {local_.control->chunk_fd(bell.chunk).get(),
                                          local_.bell_event().get()};
  link.send(message, descriptors);
}

std::string ShmFabric::validate_process(const Link& link, int rank) const {
  const RankAddress& known = partners_[static_cast<std::size_t>(rank)].address;
  const Link::Process& peer = link.peer();
  if (peer.pid == known.pid && peer.uid == known.uid) return {};
  return fmt::format("it is pid {} of user {}, and rank {} is pid {} of user {}", peer.pid,
                     peer.uid, rank, known.pid, known.uid);
}

void ShmFabric::on_message(Link& link, std::span<const std::byte> bytes,
                           std::vector<os::Fd> descriptors) {
  MessageType type{};
  if (bytes.size() < sizeof type) return;
  std::memcpy(&type, bytes.data(), sizeof type);
  if (link.wireup.stage == Stage::refused) return;
  if (link.wireup.stage != Stage::proved) return on_wireup(link, bytes, std::move(descriptors));
  Partner& partner = partners_[static_cast<std::size_t>(link.rank)];
  if (partner.channel == nullptr) return;
  if (type == MessageType::chunk)
    on_chunk(partner, bytes, std::move(descriptors));
  else if (const auto again = parse<ChunkAgainMessage>(bytes);
           again && type == MessageType::chunk_again)
    partner.channel->share_again(again->chunk);
  else if (type == MessageType::device_chunk)
    on_device_chunk(partner, bytes, std::move(descriptors));
  else if (type == MessageType::stats)
    on_stats(partner, std::move(descriptors));
  else if (type == MessageType::adopted || type == MessageType::forget ||
           type == MessageType::reaches)
    on_adopted(partner, bytes);
  else
    events_.message(link.rank, bytes);
}

void ShmFabric::on_wireup(Link& link, std::span<const std::byte> bytes,
                          std::vector<os::Fd> descriptors) {
  MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  std::string reason = "it does not say who it is";
  if (link.rank < 0 && link.wireup.stage == Stage::none)
    reason = type == MessageType::handshake ? on_handshake(link, bytes) : reason;
  else if (link.rank < 0)
    reason = on_connect(link, bytes, std::move(descriptors));
  else if (type == MessageType::answer)
    reason = on_answer(link, bytes);
  else
    reason = on_accept(link, bytes, std::move(descriptors));
  if (!reason.empty()) reject(link, reason);
}

std::string ShmFabric::on_handshake(Link& link, std::span<const std::byte> bytes) {
  const auto message = parse<HandshakeMessage>(bytes);
  if (!message) return "it does not say who it is";
  std::string reason = identity_.validate(message->handshake);
  if (reason.empty() && message->handshake.purpose != Purpose::memory)
    reason = "it does not want to share memory";
  if (reason.empty()) reason = validate_process(link, message->handshake.from);
  // One of another job can say what differs, too.
  if (reason.empty() || identity_.is_of_other_job(message->handshake)) {
    link.wireup.client = message->handshake;
    link.wireup.server = identity_.answer(message->handshake);
    link.send(AnswerMessage{.answer = link.wireup.server});
  }
  if (reason.empty()) link.wireup.stage = Stage::begun;
  return reason;
}

std::string ShmFabric::on_answer(Link& link, std::span<const std::byte> bytes) {
  const auto message = parse<AnswerMessage>(bytes);
  if (!message || link.wireup.stage != Stage::begun || link.wireup.server.handshake.from >= 0)
    return "its answer is malformed";
  std::string reason = identity_.validate(link.wireup.client, message->answer);
  if (!reason.empty()) return reason;
  link.wireup.server = message->answer;
  send_connect(link, MessageType::connect, false);
  return {};
}

std::string ShmFabric::on_connect(Link& link, std::span<const std::byte> bytes,
                                  std::vector<os::Fd> descriptors) {
  const auto message = parse<ConnectMessage>(bytes);
  const bool is_complete = descriptors.size() == kConnectDescriptors || link.lost_descriptors();
  if (!message || message->type != MessageType::connect || !is_sound(*message) || !is_complete)
    return "its connect message is malformed";
  if (!identity_.verify(link.wireup.client, link.wireup.server, message->proof))
    return "it does not know the job's secret";
  if (link.lost_descriptors()) {
    lose_descriptors(link.wireup.client.from);
    return {};
  }
  const auto held = pending_connections_.find(link.id());
  if (held == pending_connections_.end()) return {};  // it was late, and is being dropped
  Partner& partner = partners_[static_cast<std::size_t>(link.wireup.client.from)];
  link.wireup.stage = Stage::proved;
  link.rank = partner.rank;
  pending_.leave(held->second.place);
  partner.links.push_back(std::move(held->second.link));
  pending_connections_.erase(held);
  open_channel(partner, link, *message, std::move(descriptors));
  return {};
}

void ShmFabric::lose_descriptors(int rank) {
  events_.short_of(Error(ErrorDetail{
      .code = Code::exhausted,
      .operation = "join",
      .message = fmt::format("no descriptor is left here for those that rank {} sends", rank),
      .hint = "raise the limit of open files (ulimit -n): a rank needs four per rank of its host",
      .rank = local_.rank,
      .peer = rank}));
}

std::string ShmFabric::on_accept(Link& link, std::span<const std::byte> bytes,
                                 std::vector<os::Fd> descriptors) {
  // It has proved who it is by its answer.
  const auto message = parse<ConnectMessage>(bytes);
  if (!message || message->type != MessageType::accept ||
      link.wireup.server.handshake.from != link.rank || !is_sound(*message) ||
      (descriptors.size() != kConnectDescriptors && !link.lost_descriptors()))
    return "its accept message is malformed";
  if (link.lost_descriptors()) {
    lose_descriptors(link.rank);
    return {};
  }
  link.wireup.stage = Stage::proved;
  open_channel(partners_[static_cast<std::size_t>(link.rank)], link, *message,
               std::move(descriptors));
  return {};
}

void ShmFabric::open_channel(Partner& partner, Link& link, const ConnectMessage& message,
                             std::vector<os::Fd> descriptors) {
  if (partner.channel != nullptr) return;  // the accept message to oneself
  watch_process(partner);
  const bool is_certain = partner.pidfd || partner.address.pid == ::getpid();
  try {
    auto control = local_.mapper->map(descriptors[0], message.control_bytes, Access::write);
    const bool ring_needs_fence = message.barrier_before_sleep == 0 || !os::joins_global_barriers();
    auto channel =
        std::make_unique<ShmChannel>(local_, link, std::move(control), message.doorbell_offset,
                                     std::move(descriptors[1]), ring_needs_fence);
    const bool reaches =
        channel->find_reach(partner.address.pid, partner.pidfd.get(), message.probe,
                            cross_memory_ && message.probe != 0 && is_certain);
    if (message.type == MessageType::accept) {
      channel->set_peer_reaches(message.reaches != 0);
      link.send(ReachesMessage{.reaches = reaches ? 1U : 0U});
    } else {
      // To oneself, the same holds both ways.
      channel->set_peer_reaches(reaches && partner.rank == local_.rank);
      send_connect(link, MessageType::accept, reaches);
    }
    if (!reaches)
      local_.log->info(Subsystem::path, "memory adopted by rank {} is staged: {}", partner.rank,
                       cross_memory_ ? "the kernel does not let this process reach into it"
                                     : "WEFT_CROSS_MEMORY=off");
    partner.channel = channel.get();
    share_stats(link);
    events_.connected(partner.rank, std::move(channel));
  } catch (const Error& error) {
    events_.short_of(error);
  }
}

void ShmFabric::on_adopted(Partner& partner, std::span<const std::byte> bytes) {
  if (const auto region = parse<AdoptedMessage>(bytes);
      region && region->type == MessageType::adopted) {
    partner.channel->add_adopted(*region);
    local_.ring();  // a thread may wait for just this memory
  }
  if (const auto gone = parse<ForgetMessage>(bytes); gone && gone->type == MessageType::forget)
    partner.channel->forget_adopted(gone->chunk);
  if (const auto said = parse<ReachesMessage>(bytes); said && said->type == MessageType::reaches)
    partner.channel->set_peer_reaches(said->reaches != 0);
}

void ShmFabric::share_stats(Link& link) {
  if (link.rank == local_.rank || !local_.stats->file()) return;
  const std::array<int, 1> descriptor = {local_.stats->file().get()};
  link.send(StatsMessage{}, descriptor);
}

void ShmFabric::on_stats(const Partner& partner, std::vector<os::Fd> descriptors) {
  // No descriptor comes where this rank has none left; the rank can do without.
  if (descriptors.size() == 1)
    local_.pinned_peer_stats.keep(partner.rank, std::move(descriptors.front()));
}

void ShmFabric::on_device_chunk(const Partner& partner, std::span<const std::byte> bytes,
                                std::vector<os::Fd> descriptors) {
  const auto message = parse<DeviceChunkMessage>(bytes);
  if (!message || local_.gpus == nullptr || sort_of_chunk(message->chunk) != ArenaSort::device)
    return;
  // Mapped by the thread that puts, as the driver may take its time.
  local_.gpus->peers().keep(partner.rank, message->chunk, message->exported,
                            descriptors.size() == 1 ? std::move(descriptors.front()) : os::Fd());
}

void ShmFabric::on_chunk(Partner& partner, std::span<const std::byte> bytes,
                         std::vector<os::Fd> descriptors) {
  const auto chunk = parse<ChunkMessage>(bytes);
  if (!chunk) return;
  const auto lacks = [&](std::string why, std::string hint) {
    Status status(ErrorDetail{.code = Code::exhausted,
                              .operation = "map",
                              .message = std::move(why),
                              .hint = std::move(hint),
                              .rank = local_.rank,
                              .peer = partner.rank});
    local_.log->error(Subsystem::path, "{}", status.text());
    partner.channel->lacks_chunk(chunk->chunk, chunk->bytes,
                                 descriptors.empty() ? os::Fd() : std::move(descriptors[0]),
                                 std::move(status));
  };
  if (descriptors.size() != 1) {
    lacks(fmt::format("{} bytes of memory of rank {} can't be reached: no descriptor is left here",
                      chunk->bytes, partner.rank),
          "raise the limit of open files (ulimit -n)");
  } else {
    try {
      partner.channel->add_chunk(
          chunk->chunk, local_.mapper->map(descriptors[0], chunk->bytes, access_to(chunk->chunk)));
      local_.recorder.control(stats::Event::chunk_mapped, partner.rank, 0, chunk->chunk);
    } catch (const Error& error) {
      lacks(fmt::format("{} bytes of memory of rank {} can't be mapped: {}", chunk->bytes,
                        partner.rank, error.detail().message),
            "raise the limit of address space (ulimit -v), or of mappings (vm.max_map_count)");
    }
  }
  local_.ring();  // a thread may wait for just this chunk
}

}  // namespace weft::p2p
