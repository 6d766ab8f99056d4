// Messages: ping-pong by size, and the rate of small messages.
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/message.hpp"

namespace weft::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double micros_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

/// Ping-pong of one size by messages; the limit is a copy out of shared memory after a flag.
class SendReceive {
 public:
  SendReceive(World& world, const SharedMemory& bare, const RunOptions& options, std::size_t size)
      : messages_(world),
        bare_(bare),
        check_(options.check),
        leads_(world.rank() == 0),
        other_(1 - world.rank()),
        outgoing_(world.allocate(DType::u8, {static_cast<std::int64_t>(size)})),
        incoming_(world.allocate(DType::u8, {static_cast<std::int64_t>(size)})) {}

  /// Returns microseconds one way.
  double run(Block block, bool touched) {
    touched_ = touched;
    const bool is_weft = block.variant == kWeft;
    const auto start = SteadyClock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      if (leads_) is_weft ? send() : raise();
      is_weft ? receive() : see();
      if (!leads_) is_weft ? send() : raise();
    }
    return micros_since(start) / block.operations / 2;
  }

 private:
  void send() {
    prepare(outgoing_.data(), ++sent_);
    messages_.send(other_, 0, outgoing_).or_throw();
  }
  void receive() {
    messages_.recv(other_, 0, incoming_).status().or_throw();
    inspect(++received_);
  }
  void raise() {
    prepare(bare_.data(), ++raised_);
    raise_to(bare_.flags().ping, raised_);
  }
  void see() {
    await(bare_.their_flags().ping, ++seen_, bare_.idle());
    std::memcpy(incoming_.data(), bare_.their_data(), incoming_.bytes());
    inspect(seen_);
  }
  void prepare(std::byte* buffer, std::uint64_t iteration) {
    if (touched_ || check_) fill(buffer, outgoing_.bytes(), iteration);
  }
  void inspect(std::uint64_t iteration) {
    if (touched_) touch(incoming_.data(), incoming_.bytes());
    if (check_)
      require_data(holds(incoming_.data(), incoming_.bytes(), iteration), incoming_.bytes(),
                   iteration);
  }

  Messages messages_;
  const SharedMemory& bare_;
  bool check_;
  bool touched_ = false;
  bool leads_;
  int other_;
  Tensor outgoing_;
  Tensor incoming_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t raised_ = 0;
  std::uint64_t seen_ = 0;
};

/// Windows of messages one way, an empty message back.
class Rate {
 public:
  Rate(World& world, const SharedMemory& bare, const RunOptions& options, std::size_t size)
      : messages_(world),
        bare_(bare),
        check_(options.check),
        leads_(world.rank() == 0),
        size_(size) {
    for (std::size_t i = 0; i < kWindow; ++i)
      tensors_.push_back(world.allocate(DType::u8, {static_cast<std::int64_t>(size)}));
    requests_.resize(kWindow);
  }

  static std::size_t bare_bytes(std::size_t size) { return kWindow * stride(size); }

  /// Returns microseconds per message.
  double run(Block block) {
    const auto start = SteadyClock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      ++window_;
      if (block.variant == kWeft)
        leads_ ? send() : receive();
      else
        leads_ ? write() : read();
    }
    return micros_since(start) / block.operations / kWindow;
  }

 private:
  // Distance of two entries, each a flag with its payload.
  static std::size_t stride(std::size_t size) {
    return (sizeof(std::uint64_t) + size + 63) / 64 * 64;
  }
  static std::atomic<std::uint64_t>& flag(std::byte* cell) {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(cell);
  }
  static const std::atomic<std::uint64_t>& flag(const std::byte* cell) {
    return *reinterpret_cast<const std::atomic<std::uint64_t>*>(cell);
  }

  void send() {
    for (std::size_t i = 0; i < kWindow; ++i) {
      if (check_) fill(tensors_[i].data(), size_, window_ + i);
      requests_[i] = messages_.isend(1, 0, tensors_[i]);
    }
    messages_.wait_all(requests_).or_throw();
    messages_.recv(1, 1, nothing_).status().or_throw();
  }
  void receive() {
    for (std::size_t i = 0; i < kWindow; ++i) requests_[i] = messages_.irecv(0, 0, tensors_[i]);
    messages_.wait_all(requests_).or_throw();
    inspect();
    messages_.send(0, 1, nothing_).or_throw();
  }
  void write() {
    for (std::size_t i = 0; i < kWindow; ++i) {
      std::byte* const cell = bare_.data() + i * stride(size_);
      if (check_) fill(tensors_[i].data(), size_, window_ + i);
      std::memcpy(cell + sizeof(std::uint64_t), tensors_[i].data(), size_);
      flag(cell).store(window_, std::memory_order_release);
    }
    await(bare_.their_flags().acknowledged, window_, bare_.idle());
  }
  void read() {
    for (std::size_t i = 0; i < kWindow; ++i) {
      const std::byte* const cell = bare_.their_data() + i * stride(size_);
      while (flag(cell).load(std::memory_order_acquire) < window_) {
      }
      std::memcpy(tensors_[i].data(), cell + sizeof(std::uint64_t), size_);
    }
    inspect();
    raise_to(bare_.flags().acknowledged, window_);
  }
  void inspect() {
    if (!check_) return;
    for (std::size_t i = 0; i < kWindow; ++i)
      require_data(holds(tensors_[i].data(), size_, window_ + i), size_, window_);
  }

  Messages messages_;
  const SharedMemory& bare_;
  bool check_;
  bool leads_;
  std::size_t size_;
  std::vector<Tensor> tensors_;
  std::vector<MessageRequest> requests_;
  Tensor nothing_ = Tensor::wrap(nullptr, DType::u8, {0});
  std::uint64_t window_ = 0;
};

}  // namespace

std::vector<RunRow> measure_send_recv(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const SharedMemory bare(world, options, "bench.send_recv." + std::to_string(size), size);
    Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
    SendReceive game(world, bare, options, size);
    for (const std::string_view kind : {kUntouched, kTouched}) {
      const RunBlock run = [&](Block block) { return game.run(block, kind == kTouched); };
      if (world.rank() == 1)
        conductor.follow(run);
      else
        rows.push_back(
            measure_against_limit(conductor, kNoCopy, {.budget = options.budget}, size, kind, run));
    }
  }
  return rows;
}

std::vector<RunRow> measure_message_rate(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const SharedMemory bare(world, options, "bench.message_rate." + std::to_string(size),
                            Rate::bare_bytes(size));
    Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
    Rate game(world, bare, options, size);
    const RunBlock run = [&game](Block block) { return game.run(block); };
    if (world.rank() == 1)
      conductor.follow(run);
    else
      rows.push_back(measure_against_limit(conductor, kNoCopy, {.budget = options.budget}, size,
                                           kUntouched, run));
  }
  return rows;
}

}  // namespace weft::bench
