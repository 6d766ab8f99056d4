// A trainer with an engine of its own and no graph: two ranks exchange gradients, and a
// TracingAllocator finds which allocations to register. In the first step it copies what is sent;
// from the second step on nothing is copied.
//   mpirun -n 2 traced_trainer
//   mpirun -n 2 traced_trainer cut_edges     registers each gradient on its own, to compare
//   mpirun -n 2 traced_trainer off           copies in every step, to compare
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>

#include "network.hpp"
#include "weft/weft.hpp"

namespace {

using weft::dataflow::TracingAllocator;
using weft::dataflow::TracingCounters;
using weft::dataflow::TracingMode;

constexpr int kSteps = 200;
constexpr std::int64_t kRows = 64;
constexpr float kRate = 0.05F;

std::optional<TracingMode> mode_of(const char* text) {
  for (const TracingMode mode : {TracingMode::sites, TracingMode::cut_edges, TracingMode::off})
    if (name(mode) == text) return mode;
  return std::nullopt;
}

/// Bytes that puts had to copy: none, since the allocator gave registered memory.
std::uint64_t copied_by_puts(const weft::World& world) {
  std::uint64_t bytes = 0;
  for (const weft::EdgeReport& edge : world.report().edges) bytes += edge.counters.bytes_copied;
  return bytes;
}

class Trainer {
 public:
  Trainer(weft::World& world, TracingMode mode)
      : world_(world),
        memory_(world, {.mode = mode}),
        network_(memory_),
        in_(world.expose(spec())),
        out_(world.attach(1 - world.rank(), spec())) {
    // The poster's way is told by hand which sites are the sources of edges.
    memory_.mark_cut("backward", 1);
  }

  /// Returns the loss of the last step.
  double run() {
    double loss = 0.0;
    for (int step = 1; step <= kSteps; ++step) {
      const TracingCounters before = memory_.counters();
      loss = train_step(step);
      memory_.next_step();
      const std::uint64_t copies = memory_.counters().copies - before.copies;
      if (step == 1) first_copies_ = copies;
      if (step > 1) later_copies_ += copies;
      if (world_.rank() == 0 && (step <= 3 || step % 50 == 0))
        std::printf("step %d: loss %.4f, copies %llu\n", step, loss,
                    static_cast<unsigned long long>(copies));
    }
    if (world_.rank() == 0) std::printf("%s", memory_.report().text().c_str());
    return loss;
  }

  /// Whether the copies are those that the mode promises.
  bool copied_as_promised(TracingMode mode) const {
    if (copied_by_puts(world_) != 0) return false;
    switch (mode) {
      case TracingMode::sites:
        return first_copies_ > 0 && later_copies_ == 0;
      case TracingMode::cut_edges:
        return first_copies_ == 0 && later_copies_ == 0 &&
               memory_.counters().registrations == kSteps;
      default:
        return first_copies_ > 0 && later_copies_ == first_copies_ * (kSteps - 1);
    }
  }

 private:
  static weft::SlotSpec spec() {
    return {.name = "gradient", .shape = {traced::Network::parameters()}};
  }

  double train_step(int step) {
    const auto seed = static_cast<std::uint64_t>(2 * step + world_.rank());
    const traced::Batch batch = network_.draw(kRows, seed);
    weft::Tensor gradient;
    const double loss = network_.step(batch, gradient);
    network_.scale(gradient, 0.5F / static_cast<float>(kRows));
    weft::Request sent = out_.put(memory_.to_send(gradient));
    const weft::Arrival other = in_.wait().value();
    network_.apply(gradient, other.tensor(), kRate);
    sent.wait().or_throw();
    return loss;
  }

  weft::World& world_;
  TracingAllocator memory_;
  traced::Network network_;
  weft::Slot in_;
  weft::RemoteSlot out_;
  std::uint64_t first_copies_ = 0;
  std::uint64_t later_copies_ = 0;
};

bool run(TracingMode mode) {
  weft::World world = weft::World::join();
  if (world.size() != 2) {
    std::fprintf(stderr, "traced_trainer: it takes 2 ranks, not %d\n", world.size());
    return false;
  }
  Trainer trainer(world, mode);
  const double loss = trainer.run();
  const bool is_learned = loss < 0.1;
  const bool is_kept = trainer.copied_as_promised(mode);
  world.leave().or_throw();
  if (!is_learned || !is_kept)
    std::fprintf(stderr, "traced_trainer: rank %d: loss %.4f%s\n", world.rank(), loss,
                 is_kept ? "" : ", and copies that the mode does not have");
  return is_learned && is_kept;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<TracingMode> mode = mode_of(argc == 2 ? argv[1] : "sites");
  if (argc > 2 || !mode) {
    std::fprintf(stderr, "usage: traced_trainer [sites|cut_edges|off]\n");
    return 2;
  }
  try {
    return run(*mode) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "traced_trainer: %s\n", error.what());
    return 1;
  }
}
