// Shared by the tests of plans that streams run.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/slots/streams.hpp"
#include "weft/collective.hpp"

namespace weft::tests {

/// The outcome that the plan's streams are told. Others may write the word at that moment.
inline std::uint32_t outcome_of(const Plan& plan) {
  return __atomic_load_n(plan.outcome(), __ATOMIC_ACQUIRE);
}

using RawBytes = std::vector<unsigned char>;

/// Ranks as threads on the stand-in's two GPUs: from the third on, they share them.
class StreamPlans : public OnStandInStreams {
 protected:
  void run(int ranks, const std::function<void(World&)>& body) {
    ranks_ = ranks;
    run_on(ranks, settings().with(Setting::log, "off").with(Setting::fabric, "shm"), body);
  }
  static int gpu_of(const World& world) { return world.rank() % 2; }
  static Memory own_gpu(const World& world) { return Memory::gpu(gpu_of(world)); }
  /// A place that all ranks come to, without weft.
  void meet(const World&, const char* place = "") {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++came_ == ranks_) {
      came_ = 0;
      ++round_;
      all_came_.notify_all();
    }
    EXPECT_TRUE(all_came_.wait_for(lock, std::chrono::seconds(60), [&] { return round_ != round; }))
        << "not all ranks came to this place: " << place;
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_came_;
  int ranks_ = 0;
  int came_ = 0;
  int round_ = 0;
};

/// Bits of finite numbers below 2 for floats, any for integers.
inline RawBytes random_bytes(DType dtype, std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RawBytes made(bytes);
  for (unsigned char& byte : made) byte = static_cast<unsigned char>(random());
  if (dtype > DType::bf16) return made;
  const std::size_t size = size_of(dtype);
  for (std::size_t last = size - 1; last < made.size(); last += size) made[last] &= 0xbfU;
  return made;
}

/// All kinds that GPUs carry out, on an input, an output for all elements and one that is both.
inline std::vector<Call> calls_on(const Tensor& in, const Tensor& out, const Tensor& both,
                                  const ReduceOp& op, int ranks, int rank) {
  const std::int64_t part = in.shape().elements() / ranks;
  return {all_reduce(in, out, op),
          all_reduce(both, op),
          reduce(in, out, op, ranks - 1),
          reduce_scatter(in, out.part(0, {part}), op),
          reduce_scatter(both, both.part(part * rank, {part}), op),
          all_gather(in.part(1, {part}), out),
          all_gather(both.part(part * rank, {part}), both),
          broadcast(both, 0)};
}

/// Tensors of one rank, in host memory that GPUs reach and on its GPU, and a stream.
class PlanRig {
 public:
  PlanRig(World& world, int gpu, DType dtype, std::int64_t elements)
      : world_(world),
        dtype_(dtype),
        shape_{elements},
        own_(world, gpu, 1, 1),
        bytes_(static_cast<std::size_t>(elements) * size_of(dtype)),
        host_(**load_driver(), 4 * bytes_),
        in_(world.allocate(dtype, shape_, Memory::gpu(gpu))),
        out_(world.allocate(dtype, shape_, Memory::gpu(gpu))),
        both_(world.allocate(dtype, shape_, Memory::gpu(gpu))) {}

  const Tensor& in() const { return in_; }
  const Tensor& out() const { return out_; }
  const Tensor& both() const { return both_; }
  const OwnStream& own() const { return own_; }
  Stream stream() const { return own_.get(); }
  StreamHandle handle() const { return own_.handle(); }
  void synchronize() { own_.synchronize(); }

  /// Makes the elements that bring() copies.
  void set(std::uint64_t seed) {
    for (std::size_t i = 0; i < 2; ++i) {
      const RawBytes made = random_bytes(dtype_, bytes_, 31 * seed + i);
      std::copy(made.begin(), made.end(), &host_[i * bytes_]);
    }
  }
  /// Behind what is on the stream: the input, which is also what `both` begins with, and an output
  /// that has other bits.
  void bring() {
    world_.copy(at(0), in_, stream());
    world_.copy(at(1), both_, stream());
    world_.copy(at(1), out_, stream());
  }
  void take() {
    world_.copy(out_, at(2), stream());
    world_.copy(both_, at(3), stream());
  }
  /// As the stream has taken them.
  RawBytes taken() { return {&host_[2 * bytes_], &host_[2 * bytes_] + 2 * bytes_}; }
  /// The result of the same call on the thread, on host memory.
  RawBytes expected(Collectives& group, const ReduceOp& op, std::size_t nth) {
    const Tensor in = world_.allocate(dtype_, shape_), out = world_.allocate(dtype_, shape_),
                 both = world_.allocate(dtype_, shape_);
    std::memcpy(in.data(), &host_[0], bytes_);
    std::memcpy(out.data(), &host_[bytes_], bytes_);
    std::memcpy(both.data(), &host_[bytes_], bytes_);
    group.run(calls_on(in, out, both, op, group.size(), group.rank())[nth]).or_throw();
    RawBytes made(2 * bytes_);
    std::memcpy(made.data(), out.data(), bytes_);
    std::memcpy(made.data() + bytes_, both.data(), bytes_);
    return made;
  }

 private:
  Tensor at(std::size_t nth) { return Tensor::wrap(&host_[nth * bytes_], dtype_, shape_); }

  World& world_;
  const DType dtype_;
  const Shape shape_;
  OwnStream own_;
  const std::size_t bytes_;
  Pinned<unsigned char> host_;
  const Tensor in_, out_, both_;
};

/// The graph of what `work` puts on the stream.
class Captured {
 public:
  Captured(const PlanRig& rig, const std::function<void()>& work) : driver_(**load_driver()) {
    EXPECT_OK(driver_.begin_capture(rig.handle(), CaptureMode::thread_local_));
    work();
    Graph graph = nullptr;
    EXPECT_OK(driver_.end_capture(rig.handle(), &graph));
    const OwnContext current(driver_, rig.in().memory().ordinal());
    act(true);
    EXPECT_OK(driver_.instantiate_graph(&executable_, graph, 0));
    act(false);
    EXPECT_OK(driver_.destroy_graph(graph));
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { EXPECT_OK(driver_.destroy_graph_exec(executable_)); }

  void launch(StreamHandle stream) const { EXPECT_OK(driver_.launch_graph(executable_, stream)); }

 private:
  static void act(bool on) {
    if (auto* control = stand_in::control()) control->act_for_application(on);
  }
  const Driver& driver_;
  GraphExec executable_ = nullptr;
};

/// Runs that end otherwise than in order.
class StreamEnds : public StreamPlans {
 protected:
  static constexpr std::size_t kLength = 1000;
  static Tensor ones(World& world) {
    return tensor_of(world, own_gpu(world), std::vector<float>(kLength, 1));
  }
  /// Runs the plan once on both ranks.
  void prepare(World& world, Plan& plan, OwnStream& own) {
    plan.start(own.get()).or_throw();
    own.synchronize();
    EXPECT_EQ(outcome_of(plan), 0U);
    meet(world, "prepared");
  }
  static std::uint32_t number(Code code) { return static_cast<std::uint32_t>(code); }
};

}  // namespace weft::tests
