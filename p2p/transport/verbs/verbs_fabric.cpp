#include "p2p/transport/verbs/verbs_fabric.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "p2p/transport/ending.hpp"
#include "p2p/transport/verbs/device/budget.hpp"

namespace weft::p2p::verbs {
namespace {

/// So many peers at least have room in the completion queues of a rank that connects on first use.
constexpr int kLeastPeers = 128;
/// Longer than what is merely slow takes, but where hosts are emulated.
constexpr std::chrono::milliseconds kKick{250};
/// How long a rank that goes waits for what it said last to arrive.
constexpr std::chrono::milliseconds kDrainTimeout{1000};

template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

bool is_ipv4(const VerbsAddress& port) {
  constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(port.gid.data(), kMapped.data(), kMapped.size()) == 0;
}

/// As topology says it; empty where another port was taken than topology's.
std::string why_this_port(std::string_view port, const topology::RankPlacement& placement) {
  const bool placed = !placement.nic.empty() && port.substr(0, port.rfind(':')) == placement.nic;
  return placed ? fmt::format(" ({})", placement.reason) : std::string{};
}

}  // namespace

VerbsFabric::VerbsFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events,
                         const Config& config, std::shared_ptr<Verbs> verbs, std::string why_not)
    : local_(local),
      progress_(progress),
      events_(events),
      verbs_(std::move(verbs)),
      options_(VerbsOptions::read(config)),
      init_timeout_(config.time(Setting::init_timeout).value()),
      why_not_(std::move(why_not)),
      connector_(local, progress, *this, config),
      first_use_(local, events, connector_, options_.eager_ranks) {}

VerbsFabric::~VerbsFabric() {
  if (rails_) rails_->stop();
}

Reach VerbsFabric::reaches(const RankAddress& own, const RankAddress& peer) const {
  const VerbsPart own_part = own.fabrics.find<VerbsPart>(kind()).value_or(VerbsPart{});
  const VerbsPart peer_part = peer.fabrics.find<VerbsPart>(kind()).value_or(VerbsPart{});
  if (own_part.port.present == 0) return {false, text_of(own_part.port.why_not)};
  if (peer_part.port.present == 0)
    return {false, fmt::format("host {} has no device for it: {}", peer.host.data(),
                               text_of(peer_part.port.why_not))};
  // Whichever end is the lower rank: the first ports of a rank and of its peer are of the kind of
  // all others.
  const VerbsAddress& from = own_part.port;
  const VerbsAddress& to = peer_part.port;
  if (from.link_layer != to.link_layer || from.iwarp != to.iwarp)
    return {false, fmt::format("{} here and {} there are of different kinds", from.device.data(),
                               to.device.data())};
  const bool by_gid = from.link_layer == IBV_LINK_LAYER_ETHERNET && from.iwarp == 0;
  if (by_gid && (from.gid_type != to.gid_type || is_ipv4(from) != is_ipv4(to)))
    return {false,
            fmt::format("the GIDs of {} here and of {} there are of different types (WEFT_IB_GID)",
                        from.device.data(), to.device.data())};
  if ((from.cm_port == 0) != (to.cm_port == 0))
    return {false, fmt::format("WEFT_CONNECT is {} here and {} there",
                               from.cm_port == 0 ? "tcp" : "cm", to.cm_port == 0 ? "tcp" : "cm")};
  if (from.iwarp != 0 && own.host_id == peer.host_id &&
      own_part.connector.port == peer_part.connector.port &&
      own_part.connector.ips == peer_part.connector.ips)
    return {false, "iWARP connects no queue pair to itself"};
  return {true, fmt::format("queue pairs from {} to {}{}", from.device.data(), to.device.data(),
                            why_this_port(from.device.data(), local_.placement))};
}

void VerbsFabric::listen(RankAddress& own) {
  const auto refuse = [&](const std::string& why) {
    why_not_ = why;
    VerbsPart part;
    std::strncpy(part.port.why_not.data(), why.c_str(), part.port.why_not.size() - 1);
    (void)own.fabrics.add(kind(), part);
    if (!options_.nic.empty() && !local_.only_fabric)
      local_.log->warn(Subsystem::path, "WEFT_NIC=\"{}\" has no effect: {}", options_.nic, why);
  };
  if (!local_.allows(kind())) return refuse(local_.only_fabric_text());
  try {
    const topology::RankPlacement& placement = local_.placement;
    if (placement.nic.empty() && !placement.reason.empty() && options_.nic.empty())
      throw Error(ErrorDetail{.code = Code::unreachable,
                              .operation = "join",
                              .message = placement.reason,
                              .hint = "ranks of other hosts are reached by TCP; WEFT_NIC names "
                                      "another NIC"});
    if (!verbs_) return refuse(why_not_);
    rails_ =
        std::make_unique<Rails>(Device::open_all(verbs_, options_, *local_.log, local_.placement));
    if (options_.connection_manager) cm_connector_ = make_cm_connector();
    VerbsPart part;
    part.connector = connector_.listen();
    rails_->describe(part);
    if (cm_connector_) cm_connector_->describe(part.port);
    (void)own.fabrics.add(kind(), part);
  } catch (const Error& error) {
    if (local_.only_fabric == kind()) throw;
    cm_connector_.reset();
    rails_.reset();
    refuse(error.detail().message);
  }
}

void VerbsFabric::open(const std::vector<RankAddress>& job) {
  partners_ = std::vector<Partner>(job.size());
  first_use_.open(job.size());
  std::vector<ConnectorAddress> addresses;
  for (std::size_t i = 0; i < job.size(); ++i) {
    const auto part = job[i].fabrics.find<VerbsPart>(kind()).value_or(VerbsPart{});
    partners_[i].rank = static_cast<int>(i);
    partners_[i].ports = part.ports();
    addresses.push_back(part.connector);
  }
  if (cm_connector_) cm_connector_->open();
  if (rails_) connector_.open(addresses, job[0].job_secret);
}

void VerbsFabric::start_devices() {
  if (is_started()) return;
  const int peers = first_use_.deferred()
                        ? std::min(local_.size, std::max(options_.eager_ranks, kLeastPeers))
                        : local_.size;
  rails_->start(local_, progress_, peers, [this] { poll(); });
  shared_.emplace(VerbsRank{
      .rails = *rails_,
      .local = local_,
      .path_failed =
          [this](int peer, const Status& why) {
            progress_.post([this, peer, why] { lose(partner(peer), why); });
          },
      .path_refused =
          [this](int peer, const Status& why) {
            progress_.post([this, peer, why] { on_refused(partner(peer), why); });
          },
      .has_message =
          [this](int peer) { progress_.post([this, peer] { take_messages(partner(peer)); }); },
      .first_use = first_use_,
      .tend =
          [this](int peer) { progress_.post([this, peer] { take_messages(partner(peer)); }); }});
  kicks_ = std::make_unique<Timer>(progress_, kKick, [this](std::uint64_t) {
    for (Partner& partner : partners_) poll_partner(partner);
  });
  kicks_->start();
  given_back_ = local_.adopted->on_release([this](std::uint32_t chunk) {
    progress_.post([this, chunk] {
      for (const Partner& partner : partners_)
        if (partner.channel != nullptr) partner.channel->unshare(chunk);
    });
  });
  for (Rail& rail : rails_->all())
    progress_.watch(rail.device->event_fd(), EPOLLIN, [this, &rail](std::uint32_t) {
      rail.device->handle_event([this, &rail](ibv_qp* qp) { on_device_event(rail, qp); },
                                [this, &rail](bool up) { on_port(rail, up); });
    });
}

void VerbsFabric::connect(int rank) {
  Partner& partner = this->partner(rank);
  try {
    start_devices();
    make_channel(partner);
    if (rank != local_.rank && first_use_.deferred())
      return events_.reachable(rank, std::move(partner.made));
    first_use_.connect_eagerly(rank);
    if (rank != local_.rank) return connector_.connect(rank);
    partner.channel->make_queue_pairs();
    partner.peer_is_ready = true;
    on_queue_pairs(partner, partner.channel->queue_pair_address());
  } catch (const Error& error) {
    events_.short_of(error);
  }
}

std::unique_ptr<CmConnector> VerbsFabric::make_cm_connector() {
  std::string why;
  auto manager = verbs_->connection_manager(why);
  if (!manager)
    throw Error(ErrorDetail{.code = Code::unreachable,
                            .operation = "join",
                            .message = "WEFT_CONNECT=cm: the connection manager " + why,
                            .hint = "WEFT_CONNECT=tcp does without it, but for iWARP"});
  return std::make_unique<CmConnector>(
      std::move(manager), *rails_->nearest().device, progress_, *local_.log,
      CmConnector::Options{.rank = local_.rank, .patience = init_timeout_},
      CmConnector::Events{
          .up = [this](int rank) { on_ready(partner(rank)); },
          .failed = [this](int rank, const Status& why) { lose(partner(rank), why); }});
}

void VerbsFabric::make_channel(Partner& partner) {
  std::vector<Link> links;
  for (const auto [own, peer] :
       match_ports(rails_->addresses(), partner.ports, local_.rank < partner.rank))
    links.push_back({.rail = &rails_->all()[own], .peer = partner.ports[peer]});
  partner.made = std::make_unique<VerbsChannel>(*shared_, partner.rank, std::move(links));
  partner.channel = partner.made.get();
}

void VerbsFabric::met(int rank) {
  Partner& partner = this->partner(rank);
  try {
    first_use_.begin(rank);
    partner.channel->make_queue_pairs();
    partner.is_met = true;
    QueuePairsMessage queue_pair_address = partner.channel->queue_pair_address();
    if (cm_connector_)
      queue_pair_address.token = cm_connector_->expect(rank, partner.channel->handles());
    connector_.send(rank, as_bytes(queue_pair_address));
  } catch (const Error& error) {
    give_up(partner, error);
  }
}

void VerbsFabric::give_up(Partner& partner, const Error& error) {
  if (partner.made) return events_.short_of(error);
  // The job has been joined: it goes on without this path.
  const ErrorDetail& why = error.detail();
  lose(partner, Status(ErrorDetail{.code = Code::path_failed,
                                   .operation = "path",
                                   .message = fmt::format("{}; {}", why.message, why.hint),
                                   .peer = partner.rank}));
}

void VerbsFabric::said(int rank, std::span<const std::byte> message) {
  Partner& partner = this->partner(rank);
  if (!partner.is_met) return;
  if (is_close(message)) return events_.message(rank, message);
  try {
    if (const auto pairs = parse<QueuePairsMessage>(message);
        pairs && pairs->type == QueuePairsMessage::kType)
      on_queue_pairs(partner, *pairs);
    if (const auto ready = parse<ReadyMessage>(message);
        ready && ready->type == ReadyMessage::kType) {
      partner.peer_is_ready = true;
      if_ready(partner);
    }
    if (const auto end = parse<GaveUpMessage>(message); end && end->type == GaveUpMessage::kType)
      on_given_up(partner, *end);
  } catch (const Error& error) {
    give_up(partner, error);
  }
}

void VerbsFabric::on_queue_pairs(Partner& partner, const QueuePairsMessage& message) {
  if (partner.is_ready) return;
  partner.channel->set_peer(message);
  if (!cm_connector_ || partner.rank == local_.rank) {
    partner.channel->connect();
    return on_ready(partner);
  }
  try {
    cm_connector_->connect(partner.rank, partner.ports.front(), message.token);
  } catch (const Error& error) {
    lose(partner, Status(error.detail()));
  }
}

void VerbsFabric::on_ready(Partner& partner) {
  if (partner.has_ended) return;
  partner.channel->mark_connected();
  partner.is_ready = true;
  if (partner.rank != local_.rank) connector_.send(partner.rank, as_bytes(ReadyMessage{}));
  if_ready(partner);
}

void VerbsFabric::if_ready(Partner& partner) {
  if (!partner.is_ready || !partner.peer_is_ready || partner.is_connected) return;
  partner.is_connected = true;
  const bool by_manager = cm_connector_ && partner.rank != local_.rank;
  local_.log->debug(Subsystem::path, "rank {}: {}; {}; queue pairs connected {}", partner.rank,
                    partner.channel->text(), rails_->binding_table(),
                    by_manager ? "by the connection manager at " + text(partner.ports.front().cm_ip)
                               : "over TCP");
  partner.channel->open();
  if (partner.made) events_.connected(partner.rank, std::move(partner.made));
  take_messages(partner);
}

void VerbsFabric::take_messages(Partner& partner) {
  if (!partner.is_connected || partner.has_ended) return;
  partner.channel->take_messages(
      [&](std::span<const std::byte> bytes) { events_.message(partner.rank, bytes); });
}

void VerbsFabric::poll() {
  for (Partner& partner : partners_) {
    if (partner.channel == nullptr) continue;
    partner.channel->flush();
    take_messages(partner);
  }
}

void VerbsFabric::short_of(const Error& error) { events_.short_of(error); }

PeerCost VerbsFabric::peer_cost() const noexcept {
  if (!is_started()) return {};
  const auto pairs = static_cast<std::uint64_t>(options_.queue_pairs) * rails_->all().size();
  const std::uint64_t depth = rails_->nearest().completions->depth();
  return {.registered_bytes = registered_bytes_of(pairs, rails_->all().size(), depth),
          .queue_bytes = need_of_peers(1, pairs, depth).queue_bytes,
          .completions = static_cast<std::uint32_t>(pairs * (depth + QueuePair::kReceives))};
}

void VerbsFabric::drain() noexcept {
  if (!is_started()) return;
  const auto until = Clock::now() + kDrainTimeout;
  const auto idle = [&] {
    return std::all_of(partners_.begin(), partners_.end(), [](const Partner& p) {
      return p.channel == nullptr || p.channel->is_idle();
    });
  };
  while (!idle() && Clock::now() < until) {
    rails_->drain();
    rails_->help();
  }
  first_use_.close_all([this](int rank) { return partner(rank).has_ended; });
  // It knows the queue pairs, which go now.
  cm_connector_.reset();
  for (Partner& partner : partners_) partner.channel = nullptr;
}

}  // namespace weft::p2p::verbs
