// Gloo's collectives over TCP, the only transport in Debian's build. MPI starts the processes and
// exchanges their addresses.
#include <gloo/allgather_ring.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/peers/collective_calls.hpp"
#include "benchmarks/peers/mpi_peer.hpp"
#include "benchmarks/peers/pmix_exchange.hpp"

namespace weft::bench {
namespace {

/// Exchanges the ranks' addresses, each stored under a key that ends with the rank: an allgather,
/// after which every rank knows all values.
class Addresses final : public gloo::rendezvous::Store {
 public:
  void set(const std::string& key, const std::vector<char>& data) override {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int own = static_cast<int>(data.size());
    std::vector<int> sizes(static_cast<std::size_t>(ranks));
    MPI_Allgather(&own, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    const int most = *std::max_element(sizes.begin(), sizes.end());
    std::vector<char> padded(data);
    padded.resize(static_cast<std::size_t>(most));
    std::vector<char> all(static_cast<std::size_t>(most * ranks));
    MPI_Allgather(padded.data(), most, MPI_CHAR, all.data(), most, MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(most) * rank;
      said_[kind_of(key) + std::to_string(rank)] = {begin,
                                                    begin + sizes[static_cast<std::size_t>(rank)]};
    }
  }
  std::vector<char> get(const std::string& key) override { return said_.at(key); }
  void wait(const std::vector<std::string>&) override {}

 private:
  static std::string kind_of(const std::string& key) {
    return key.substr(0, key.find_last_not_of("0123456789") + 1);
  }

  std::map<std::string, std::vector<char>> said_;
};

std::string own_place(bool on_one_host) {
  const std::string said = own_address();
  return on_one_host ? "127.0.0.1" : said.substr(said.find(' ') + 1);
}

using Context = gloo::rendezvous::Context;

std::shared_ptr<Context> connect(bool on_one_host) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto device = gloo::transport::tcp::CreateDevice(
      gloo::transport::tcp::attr(own_place(on_one_host).c_str()));
  auto context = std::make_shared<Context>(mpi_rank(), ranks);
  Addresses addresses;
  context->connectFullMesh(addresses, device);
  return context;
}

/// Equivalent to `--sync --busy-poll` of Gloo's own benchmark: the calling thread moves the bytes.
/// By default a thread of the device moves them, but ranks that poll flags leave it no processor.
void move_bytes_in_calls(Context& context) {
  const bool busy_poll = static_cast<unsigned>(context.size) <= std::thread::hardware_concurrency();
  for (int rank = 0; rank < context.size; ++rank)
    if (rank != context.rank) context.getPair(rank)->setSync(true, busy_poll);
}

/// The tensors of a call. An algorithm is created once per set of tensors, as Gloo intends.
struct Tensors {
  std::string name;
  float* in = nullptr;
  float* out = nullptr;
  std::size_t count = 0;
  bool operator==(const Tensors&) const = default;
};

std::unique_ptr<gloo::Algorithm> make_algorithm(const std::shared_ptr<gloo::Context>& context,
                                                const Tensors& of) {
  const auto ranks = static_cast<std::size_t>(context->size);
  const int all = static_cast<int>(of.count);
  const int part = static_cast<int>(of.count / ranks);
  if (of.name == kAllReduce)
    return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, std::vector{of.out},
                                                                   all);
  if (of.name == kBroadcast)
    return std::make_unique<gloo::BroadcastOneToAll<float>>(context, std::vector{of.in}, of.count);
  if (of.name == kAllGather)
    return std::make_unique<gloo::AllgatherRing<float>>(context, std::vector<const float*>{of.in},
                                                        of.out, part);
  if (of.name == kReduceScatter)
    return std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
        context, std::vector{of.in}, all, std::vector<int>(ranks, part));
  return std::make_unique<gloo::BarrierAllToAll>(context);
}

}  // namespace

struct CollectiveCalls::State {
  std::shared_ptr<Context> by_calls;
  std::shared_ptr<Context> by_thread;  ///< for all_to_all, which only has this form
  Tensors tensors;
  std::unique_ptr<gloo::Algorithm> algorithm;
};

CollectiveCalls::CollectiveCalls(bool on_one_host) : state_(std::make_unique<State>()) {
  state_->by_calls = connect(on_one_host);
  state_->by_thread = connect(on_one_host);
  move_bytes_in_calls(*state_->by_calls);
}
CollectiveCalls::~CollectiveCalls() = default;

void CollectiveCalls::run(std::string_view name, float* in, float* out, std::size_t count) {
  if (name == kAllToAll) {
    gloo::AlltoallOptions options(state_->by_thread);
    options.setInput(in, count);
    options.setOutput(out, count);
    return gloo::alltoall(options);
  }
  Tensors tensors{std::string(name), in, out, count};
  if (!(tensors == state_->tensors)) {
    state_->algorithm.reset();
    state_->tensors = std::move(tensors);
    state_->algorithm = make_algorithm(state_->by_calls, state_->tensors);
  }
  if (name == kAllReduce) std::copy_n(in, count, out);  // the algorithm works in place only
  state_->algorithm->run();
  if (name == kReduceScatter)
    std::copy_n(in, count / static_cast<std::size_t>(state_->by_calls->size), out);
}

}  // namespace weft::bench
