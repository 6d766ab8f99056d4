// table_peer_dies VICTIM MOMENT MICROSECONDS: that rank is killed amid a table whose workers have
// their parameters and gradients on GPUs. MOMENT is `push`, `pull` or `push_pull`: that long after
// its third call of it has begun; or `any`: that long after the first step has begun. The others
// end in time with an error that names it, and their GPUs go on.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/checks.hpp"
#include "weft/pslib.hpp"

namespace weft {
namespace {

constexpr std::int64_t kElements = 40'000;
constexpr int kStepsBefore = 2;

struct Death {
  int victim;
  std::string moment;
  std::chrono::microseconds after;
};

Tensor filled(World& world, Tensor tensor, float value) {
  std::vector<float> values(kElements, value);
  world.copy(Tensor::wrap(values.data(), DType::f32, {kElements}), tensor);
  return tensor;
}

bool holds(World& world, const Tensor& tensor, float value) {
  std::vector<float> values(kElements);
  world.copy(tensor, Tensor::wrap(values.data(), DType::f32, {kElements}));
  return values == std::vector<float>(kElements, value);
}

/// The process ends by SIGKILL, wherever its threads are then.
void kill_this_rank(std::chrono::microseconds after) {
  std::thread([after] {
    std::this_thread::sleep_for(after);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

Status step(pslib::Table& table, const std::string& dies_in, std::chrono::microseconds after) {
  if (dies_in == "push_pull") {
    kill_this_rank(after);
    return table.push_pull();
  }
  if (dies_in == "push") kill_this_rank(after);
  if (Status pushed = table.push(); !pushed.ok()) return pushed;
  if (dies_in == "pull") kill_this_rank(after);
  return table.pull();
}

Status train(World& world, tests::Checks& checks, const Death& death) {
  const bool dies = world.rank() == death.victim;
  pslib::ParameterServer server(world);
  pslib::TableOptions options(pslib::Optimizer::with_momentum(0.01F));
  options.memory = Memory::gpu();
  auto table = server.table("model", {{"weights", {kElements}}}, options);
  checks.expect(table.gradient("weights").memory().is_gpu(), "the gradients lie on a GPU");
  filled(world, table.parameter("weights"), 0.5F);
  filled(world, table.gradient("weights"), 1e-3F);
  if (Status status = table.initialize(); !status.ok()) return status;
  if (dies && death.moment == "any") kill_this_rank(death.after);
  constexpr int kMost = 100'000;
  Status status;
  for (int i = 0; i < kMost && status.ok(); ++i)
    status = step(table, dies && i == kStepsBefore ? death.moment : "", death.after);
  return status;
}

void run(World& world, tests::Checks& checks, const Death& death) {
  Status end;
  try {
    end = train(world, checks, death);
  } catch (const Error& error) {
    end = error.status();
  }
  checks.expect(end.code() == Code::peer_failed && end.detail().peer == death.victim,
                "the table ends with: " + end.text());
  checks.expect(end.text().find("rank " + std::to_string(death.victim)) != std::string::npos,
                "the text names the rank: " + end.text());
  const Tensor next = filled(world, world.allocate(DType::f32, {kElements}, Memory::gpu()), 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  checks.expect(holds(world, next, 7), "the GPU works, and its memory is the survivor's");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 4) return 2;
  const Death death{std::stoi(argv[1]), argv[2], std::chrono::microseconds(std::stol(argv[3]))};
  return tests::run_as_survivor([&](World& world, tests::Checks& checks) {
    std::printf("rank %d pid %d\n", world.rank(), ::getpid());
    std::fflush(stdout);
    run(world, checks, death);
  });
}
