// Edges by rendezvous: a tensor is asked for by edge and step, and written into memory that the
// receiver has made for it.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/rendezvous/receiver_end.hpp"
#include "runtime/dataflow/execute/edge_ends.hpp"
#include "weft/rendezvous.hpp"

namespace weft::dataflow {
namespace {

class RendezvousSend final : public SendEnd, private weft::detail::Condition {
 public:
  RendezvousSend(Rendezvous& exchange, const EdgePlace& place)
      : exchange_(exchange), to_(place.edge.to), key_(place.name) {}

  void start(const Tensor& tensor) noexcept override {
    ++step_;
    // It has room for a tensor of each edge, so this does not wait.
    status_ = exchange_.send(to_, key_, step_, tensor);
    if (!status_.ok()) return;
    ++costs_.transfers;
    costs_.bytes_moved += tensor.bytes();
  }
  bool is_sent() noexcept override { return !status_.ok() || !exchange_.lent(to_, key_, step_); }
  Status finish(Deadline deadline) noexcept override {
    return is_sent() ? status_ : exchange_.serve(deadline);
  }
  Awaited awaited() noexcept override { return static_cast<weft::detail::Condition*>(this); }
  EndCosts costs() const override { return {.slot = {}, .role = Role::puts, .further = costs_}; }

 private:
  bool holds() noexcept override { return is_sent(); }

  Rendezvous& exchange_;
  const int to_;
  const std::string key_;
  std::uint64_t step_ = std::numeric_limits<std::uint64_t>::max();  ///< none yet
  Status status_;
  TransferCounters costs_;
};

class RendezvousReceive final : public ReceiveEnd, private weft::detail::Condition {
 public:
  RendezvousReceive(Rendezvous& exchange, const EdgePlace& place)
      : exchange_(exchange), from_(place.edge.from), key_(place.name) {}

  bool is_there() noexcept override { return exchange_.ready(from_, key_, step_); }
  Result<Tensor> take(Deadline deadline) noexcept override {
    Result<Received> received = exchange_.recv(from_, key_, step_, deadline);
    if (!received.ok()) return received.status();
    ++step_;
    ++costs_.transfers;
    costs_.bytes_moved += received->tensor.bytes();
    return std::move(received->tensor);
  }
  /// The last handle frees the memory.
  void release() noexcept override {}
  Awaited awaited() noexcept override { return static_cast<weft::detail::Condition*>(this); }
  EndCosts costs() const override {
    return {.slot = {}, .role = Role::receives, .further = costs_};
  }

 private:
  bool holds() noexcept override { return is_there(); }

  Rendezvous& exchange_;
  const int from_;
  const std::string key_;
  std::uint64_t step_ = 0;
  TransferCounters costs_;
};

class RendezvousWay final : public Way {
 public:
  RendezvousWay(World& world, const std::string& name, std::size_t edges, Deadline deadline)
      : exchange_(Rendezvous::open(world, spec_of(name, edges), deadline)) {}

  void expose(const EdgePlace&) override {}
  std::unique_ptr<SendEnd> send_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<RendezvousSend>(exchange_, keyed(place));
  }
  std::unique_ptr<ReceiveEnd> receive_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<RendezvousReceive>(exchange_, keyed(place));
  }

 private:
  /// An edge has at most one tensor that was offered and not fetched, and one request.
  static RendezvousSpec spec_of(const std::string& name, std::size_t edges) {
    RendezvousSpec spec;
    spec.name = name;
    spec.max_parked_bytes = std::numeric_limits<std::size_t>::max();
    spec.max_parked = std::max(spec.max_parked, static_cast<std::uint32_t>(2 * edges));
    spec.max_parked_requests =
        std::max(spec.max_parked_requests, static_cast<std::uint32_t>(2 * edges));
    return spec;
  }
  static EdgePlace keyed(const EdgePlace& place) {
    constexpr std::size_t kLongestKey = 128;
    return {place.index, place.edge, place.name.substr(0, kLongestKey)};
  }

  Rendezvous exchange_;
};

/// A step asks for all its tensors, and what is put off might be what the sender waits for.
void check_edges(const Plan& plan) {
  constexpr std::size_t kMost = p2p::rendezvous::ReceiverEnd::kMostRequests;
  std::map<std::pair<int, int>, std::size_t> between;
  for (const Edge& edge : plan.edges)
    if (const std::size_t edges = ++between[{edge.from, edge.to}]; edges > kMost)
      throw_error(
          Code::bad_argument, "executor",
          fmt::format("more than {} edges from rank {} to rank {}", kMost, edge.from, edge.to),
          "take EdgeWay::slots, or place fewer nodes apart");
}

}  // namespace

std::unique_ptr<Way> make_rendezvous_way(World& world, const std::string& executor,
                                         const Plan& plan, Deadline deadline) {
  check_edges(plan);
  return std::make_unique<RendezvousWay>(world, executor, plan.edges.size(), deadline);
}

}  // namespace weft::dataflow
