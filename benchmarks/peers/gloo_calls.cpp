// Collectives of Gloo over its TCP, the only transport that Debian builds it with; MPI starts the
// processes and tells them where the others are.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/peers/collective_calls.hpp"
#include "benchmarks/peers/introduction.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

/// What the ranks tell each other, each under a key that ends with its number: all say it at once,
/// and then know it.
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

}  // namespace

struct CollectiveCalls::State {
  std::shared_ptr<gloo::rendezvous::Context> context;
};

CollectiveCalls::CollectiveCalls(bool on_one_host) : state_(std::make_unique<State>()) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto device = gloo::transport::tcp::CreateDevice(
      gloo::transport::tcp::attr(own_place(on_one_host).c_str()));
  state_->context = std::make_shared<gloo::rendezvous::Context>(mpi_rank(), ranks);
  Addresses addresses;
  state_->context->connectFullMesh(addresses, device);
}
CollectiveCalls::~CollectiveCalls() = default;

void CollectiveCalls::run(std::string_view name, float* in, float* out, std::size_t count) {
  const auto& context = state_->context;
  const std::size_t part = count / static_cast<std::size_t>(context->size);
  if (name == kAllReduce) {
    gloo::AllreduceOptions options(context);
    options.setInput(in, count);
    options.setOutput(out, count);
    using Sum = void (*)(void*, const void*, const void*, std::size_t);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    gloo::allreduce(options);
  } else if (name == kBroadcast) {
    gloo::BroadcastOptions options(context);
    options.setOutput(in, count);
    options.setRoot(0);
    gloo::broadcast(options);
  } else if (name == kAllGather) {
    gloo::AllgatherOptions options(context);
    options.setInput(in, part);
    options.setOutput(out, part * static_cast<std::size_t>(context->size));
    gloo::allgather(options);
  } else if (name == kReduceScatter) {
    // In place alone; its registration of memory is part of what it costs.
    const std::vector<int> parts(static_cast<std::size_t>(context->size), static_cast<int>(part));
    gloo::ReduceScatterHalvingDoubling<float>(context, {in}, static_cast<int>(count), parts).run();
    std::copy_n(in, part, out);
  } else if (name == kAllToAll) {
    gloo::AlltoallOptions options(context);
    options.setInput(in, count);
    options.setOutput(out, count);
    gloo::alltoall(options);
  } else {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  }
}

}  // namespace weft::bench
