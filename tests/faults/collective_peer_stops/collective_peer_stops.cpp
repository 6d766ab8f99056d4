// The middle one of three ranks is stopped (SIGSTOP) in the middle of its work on the others'
// tensors, in each collective with such work. The others' calls end by their deadline and say that
// their tensors stay lent. They get the tensors back once the stopped rank goes on, has ended its
// work and says so; from then on no element changes, and the stopped rank's own call does not
// return ok. In the last round the rank is not continued but declared dead: its end ends the loan.
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "base/stop_point.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/collective.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using namespace std::chrono_literals;
using weft::tests::Checks;

constexpr int kVictim = 1;
constexpr std::int64_t kCount = 6 << 20;  // 24 MiB
constexpr std::int64_t kPart = kCount / 3;
constexpr auto kDeadline = 1000ms;

/// The collectives after which rank 0 waits until the others no longer use its tensors.
constexpr std::array<std::string_view, 9> kKinds{"all_reduce", "reduce",    "reduce_scatter",
                                                 "scan",       "broadcast", "all_gather",
                                                 "gather",     "scatter",   "all_to_all"};

struct Tensors {
  Tensor whole;
  Tensor out;
  Tensor part;
};

Call call_of(std::string_view kind, const Tensors& t) {
  if (kind == "all_reduce") return all_reduce(t.whole, Reduction::sum);
  if (kind == "reduce") return reduce(t.whole, t.out, Reduction::sum, 0);
  if (kind == "reduce_scatter") return reduce_scatter(t.whole, t.part, Reduction::sum);
  if (kind == "scan") return scan(t.whole, t.out, Reduction::sum);
  if (kind == "broadcast") return broadcast(t.whole, 0);
  if (kind == "all_gather") return all_gather(t.part, t.whole);
  if (kind == "gather") return gather(t.part, t.whole, 0);
  if (kind == "scatter") return scatter(t.whole, t.part, 0);
  return all_to_all(t.whole, t.out);
}

void stop_at_third_piece(const char*, std::size_t piece) noexcept {
  if (piece == 2) ::kill(::getpid(), SIGSTOP);
}

void fill(const Tensor& tensor, float value) {
  for (float& element : tensor.as<float>()) element = value;
}

std::size_t changed(const Tensor& tensor, float value) {
  std::size_t count = 0;
  for (const float element : tensor.as<float>()) count += element != value ? 1 : 0;
  return count;
}

/// Waits until the process is stopped: a SIGCONT before the stop would leave it stopped.
void await_stopped(int pid) {
  for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto at = text.rfind(") ");
    if (at != std::string::npos && text[at + 2] == 'T') return;
  }
}

class Rank {
 public:
  explicit Rank(World& world)
      : world_(world), checks_(world.rank()), all_(Collectives::open(world)) {
    const Tensor own = world.allocate(DType::i32, {1});
    const Tensor pids = world.allocate(DType::i32, {3});
    own.as<std::int32_t>()[0] = ::getpid();
    all_.run(all_gather(own, pids)).or_throw();
    victim_pid_ = pids.as<std::int32_t>()[kVictim];
    tensors_ = {world.allocate(DType::f32, {kCount}), world.allocate(DType::f32, {kCount}),
                world.allocate(DType::f32, {kPart})};
  }

  void stop_within(std::string_view kind) {
    const std::string name(kind);
    Collectives group = begin();
    if (world_.rank() == kVictim) {
      const Status status = be_stopped(group, kind);
      checks_.expect(!status.ok() && status.detail().peer != kVictim,
                     name + ", the stopped rank: " + status.text());
    } else {
      give_up(group, kind);
      if (world_.rank() == 0) {
        await_stopped(victim_pid_);
        ::kill(victim_pid_, SIGCONT);
      }
      const Status settled = group.settle(Deadline::after(10s));
      checks_.expect(settled.ok(), name + ": " + settled.text());
      fill_all(-1);
    }
    all_.run(barrier()).or_throw();
    if (world_.rank() == kVictim) return;
    const std::size_t count =
        changed(tensors_.whole, -1) + changed(tensors_.out, -1) + changed(tensors_.part, -1);
    checks_.expect(count == 0, name + ": " + std::to_string(count) + " elements changed");
  }

  void die_within(std::string_view kind) {
    Collectives group = begin();
    if (world_.rank() == kVictim) {
      (void)be_stopped(group, kind);
      return;
    }
    give_up(group, kind);
    if (world_.rank() == 0) world_.declare_dead(kVictim, "it is stopped");
    const Status settled = group.settle(Deadline::after(10s));
    checks_.expect(settled.ok(), "after its death: " + settled.text());
  }

  /// A busy machine may delay one or two calls.
  bool passed() {
    checks_.expect(late_ <= 2, std::to_string(late_) + " calls ended 100 ms after their deadline");
    return checks_.passed();
  }

 private:
  Collectives begin() {
    fill_all(1);
    Collectives group = Collectives::open(world_);
    group.run(barrier()).or_throw();
    return group;
  }

  Status be_stopped(Collectives& group, std::string_view kind) {
    stop_point = stop_at_third_piece;
    Status status = group.run(call_of(kind, tensors_));
    stop_point = nullptr;
    return status;
  }

  void give_up(Collectives& group, std::string_view kind) {
    const auto begin = Clock::now();
    // Rank 0's deadline must pass first.
    const auto deadline = world_.rank() == 0 ? kDeadline : 2 * kDeadline;
    const Status status = group.run(call_of(kind, tensors_), Deadline::after(deadline));
    const auto took = std::chrono::duration<double>(Clock::now() - begin).count();
    const std::string text = std::string(kind) + " after " + std::to_string(took) + " s: ";
    late_ += took < std::chrono::duration<double>(deadline + 100ms).count() ? 0 : 1;
    if (world_.rank() != 0) return;
    checks_.expect(status.code() == Code::timeout && status.detail().peer == kVictim &&
                       status.text().find("they stay lent") != std::string::npos,
                   text + status.text());
    const Status lent = group.settle(Deadline::after(20ms));
    checks_.expect(lent.code() == Code::timeout && lent.detail().peer == kVictim,
                   text + "not lent: " + lent.text());
  }

  void fill_all(float value) {
    for (const Tensor& tensor : {tensors_.whole, tensors_.out, tensors_.part}) fill(tensor, value);
  }

  World& world_;
  Checks checks_;
  Collectives all_;
  Tensors tensors_;
  int victim_pid_ = 0;
  int late_ = 0;
};

}  // namespace

int main() {
  World world = World::join();
  bool passed = false;
  try {
    Rank rank(world);
    for (const std::string_view kind : kKinds) rank.stop_within(kind);
    rank.die_within("all_reduce");
    passed = rank.passed();
  } catch (const std::exception& error) {
    std::printf("rank %d: %s\n", world.rank(), error.what());
  }
  (void)world.leave(Deadline::after(10s));
  if (passed) std::printf("rank %d got its tensors back\n", world.rank());
  return passed ? 0 : 1;
}
