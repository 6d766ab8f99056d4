#include "benchmarks/limits/bare_queue_pair.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "p2p/transport/verbs/api/load.hpp"
#include "p2p/transport/verbs/device/device.hpp"

namespace weft::bench {
namespace {

using namespace p2p::verbs;

constexpr std::uint32_t kInline = 64;

struct QueuePairAddress {
  p2p::verbs::VerbsAddress port;
  std::uint32_t number = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
};

template <typename T>
T* made(T* object, const char* call) {
  if (object == nullptr) throw std::runtime_error(std::string(call) + " failed");
  return object;
}

void done(int error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(error));
}

std::shared_ptr<Verbs> library() {
  std::string why;
  auto verbs = load_verbs(why);
  if (!verbs) throw std::runtime_error("no RDMA: " + why);
  return verbs;
}

}  // namespace

struct BareQueuePair::Parts {
  Parts(const Config& config, std::size_t bytes)
      : log(config, "bench", 0), device(library(), VerbsOptions::read(config), log) {
    Verbs& verbs = device.verbs();
    memory.resize(std::max<std::size_t>(bytes, 64));
    region = device.register_memory(
        memory.data(), memory.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    queue = CompletionQueue(
        verbs, made(verbs.create_cq(device.context(), 4 * kReceives, nullptr), "ibv_create_cq"));
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = queue.get();
    wanted.cap = {.max_send_wr = 2 * kReceives,
                  .max_recv_wr = kReceives,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = kInline};
    pair = QueuePairHandle(verbs, made(verbs.create_qp(device.domain(), &wanted), "ibv_create_qp"));
    device.to_init(pair.get());
    for (int i = 0; i < kReceives; ++i) receive();
  }

  void receive() {
    ibv_recv_wr work{};
    ibv_recv_wr* bad = nullptr;
    done(device.verbs().post_recv(pair.get(), &work, &bad), "ibv_post_recv");
  }

  void send(bool signaled) {
    ibv_sge place{reinterpret_cast<std::uint64_t>(memory.data()), 8, region->lkey};
    ibv_send_wr work{};
    work.wr_id = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.sg_list = &place;
    work.num_sge = 1;
    work.send_flags = signaled ? IBV_SEND_INLINE | IBV_SEND_SIGNALED : IBV_SEND_INLINE;
    work.wr.rdma.remote_addr = peer.address;
    work.wr.rdma.rkey = peer.key;
    ibv_send_wr* bad = nullptr;
    done(device.verbs().post_send(pair.get(), &work, &bad), "ibv_post_send");
  }

  /// Returns microseconds per operation.
  double move(ibv_wr_opcode opcode, std::size_t size, std::uint32_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < count; ++i) {
      ibv_sge place{reinterpret_cast<std::uint64_t>(memory.data() + i * size),
                    static_cast<std::uint32_t>(size), region->lkey};
      ibv_send_wr work{};
      work.opcode = opcode;
      work.sg_list = &place;
      work.num_sge = 1;
      if (i + 1 == count) work.send_flags = IBV_SEND_SIGNALED;
      work.wr.rdma.remote_addr = peer.address + i * size;
      work.wr.rdma.rkey = peer.key;
      ibv_send_wr* bad = nullptr;
      done(device.verbs().post_send(pair.get(), &work, &bad), "ibv_post_send");
    }
    for (ibv_wc completion{};;) {
      const int ended = device.verbs().poll_cq(queue.get(), 1, &completion);
      if (ended < 0 || (ended > 0 && completion.status != IBV_WC_SUCCESS))
        throw std::runtime_error("a bare queue pair failed");
      // The last ping's completion may come first.
      if (ended > 0 &&
          completion.opcode ==
              (opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE) &&
          completion.wr_id == 0)
        break;
    }
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    return spent.count() / count;
  }

  /// Polls until a word of the peer has arrived, and reposts its receive.
  void await() {
    for (;;) {
      ibv_wc completion{};
      const int count = device.verbs().poll_cq(queue.get(), 1, &completion);
      if (count == 0) continue;
      if (count < 0 || completion.status != IBV_WC_SUCCESS)
        throw std::runtime_error("a bare queue pair failed");
      if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) continue;
      receive();
      return;
    }
  }

  Log log;
  Device device;
  std::vector<std::byte> memory;
  MemoryRegion region;
  CompletionQueue queue;
  QueuePairHandle pair;
  QueuePairAddress peer;
  bool leads = false;
};

BareQueuePair::BareQueuePair(World& world, std::size_t bytes)
    : parts_(std::make_unique<Parts>(Config::read().with(Setting::log, "off"), bytes)) {
  parts_->leads = world.rank() == 0;
  const SlotSpec spec{.name = "bare queue pair",
                      .dtype = DType::u8,
                      .shape = Shape{static_cast<std::int64_t>(sizeof(QueuePairAddress))}};
  Slot inbox = world.expose(spec);
  RemoteSlot outbox = world.attach(1 - world.rank(), spec);
  const Tensor own = world.allocate(DType::u8, spec.shape);
  const QueuePairAddress own_address{
      .port = parts_->device.address(),
      .number = parts_->pair->qp_num,
      .key = parts_->region->rkey,
      .address = reinterpret_cast<std::uint64_t>(parts_->memory.data())};
  std::memcpy(own.data(), &own_address, sizeof own_address);
  outbox.put(own).wait().or_throw();
  {
    const Arrival theirs = inbox.wait().value();
    std::memcpy(&parts_->peer, theirs.tensor().data(), sizeof parts_->peer);
  }
  parts_->device.to_ready(parts_->pair.get(), parts_->peer.port, parts_->peer.number, 0, 0);
  // Both queue pairs are ready before the first word.
  outbox.put(own).wait().or_throw();
  (void)inbox.wait().value();
}

BareQueuePair::~BareQueuePair() = default;

std::vector<double> BareQueuePair::pings(std::uint32_t rounds) {
  using Timer = std::chrono::steady_clock;
  std::vector<double> pings;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const auto start = Timer::now();
    if (!parts_->leads) parts_->await();
    parts_->send(i % 16 == 0);
    if (parts_->leads) parts_->await();
    const std::chrono::duration<double, std::micro> spent = Timer::now() - start;
    pings.push_back(spent.count() / 2);
  }
  return pings;
}

double BareQueuePair::write(std::size_t size, std::uint32_t count) {
  return parts_->move(IBV_WR_RDMA_WRITE, size, count);
}

double BareQueuePair::read(std::size_t size, std::uint32_t count) {
  return parts_->move(IBV_WR_RDMA_READ, size, count);
}

}  // namespace weft::bench
