// Load for two ranks whose networks fail, or are slow:
//   rails_load soak SECONDS FILE   tensors of many sizes both ways, contents checked, then until
//   all
//                                  rails are as often back as lost, or a file FILE.stay is there
//   rails_load rate PUTS FILE      PUTS tensors of 64 MiB from rank 0 to rank 1
// FILE.0 and FILE.1 get what the ranks have seen, once they have ended: a launcher's own connection
// may be cut. FILE.begun is there once data moves.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/world.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<std::int64_t, 5> kCounts{4, 1000, 40'000, 300'000, 2'000'000};

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

void must(const Status& status, const char* what) {
  if (!status.ok()) throw std::runtime_error(std::string(what) + ": " + status.text());
}

std::int32_t value(std::uint32_t round, int from, std::size_t i) {
  return static_cast<std::int32_t>((2 * round + static_cast<std::uint32_t>(from)) * 2654435761U +
                                   static_cast<std::uint32_t>(i));
}

const PathReport& path_to(const Report& report, int peer) {
  return *std::ranges::find(report.paths, peer, &PathReport::peer);
}

/// Complete as soon as it is there.
void tell(const std::string& file, const std::string& text) {
  { std::ofstream(file + ".part") << text << "\n"; }
  std::filesystem::rename(file + ".part", file);
}

class Soak {
 public:
  explicit Soak(World& world) : world_(world), peer_(1 - world.rank()) {
    for (std::size_t i = 0; i < kCounts.size(); ++i) slots_.push_back(world_.expose(spec(i)));
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      remotes_.push_back(world_.attach(peer_, spec(i)));
      sources_.push_back(world_.allocate(DType::i32, {kCounts[i]}));
    }
  }

  /// Returns whether rank 0 has called it the last one, which takes all to be true.
  bool round(bool is_last) {
    const auto begun = Clock::now();
    ++round_;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      const auto values = sources_[i].as<std::int32_t>();
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(round_, world_.rank(), k);
      if (i == 0) values[0] = is_last ? 1 : 0;
      requests.push_back(
          remotes_[i].put(sources_[i], round_ % 2 == 0 ? Until::delivered : Until::reusable));
    }
    bool was_last = is_last;
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      auto arrival = slots_[i].wait();
      must(arrival.status(), "wait");
      const Arrival come = std::move(arrival).value();
      const auto values = come.as<std::int32_t>();
      if (i == 0 && peer_ == 0) was_last = values[0] == 1;
      for (std::size_t k = i == 0 ? 1 : 0; k < values.size(); ++k)
        if (values[k] != value(round_, peer_, k))
          throw std::runtime_error("torn: slot " + std::to_string(i) + ", round " +
                                   std::to_string(round_) + ", value " + std::to_string(k));
    }
    for (Request& request : requests) must(request.wait(), "put");
    longest_s_ = std::max(longest_s_, seconds_since(begun));
    return was_last;
  }

  bool has_all_rails() const {
    const Report report = world_.report();
    const PathReport& path = path_to(report, peer_);
    return path.rails_back == path.rails_lost && std::ranges::all_of(path.rails, &RailReport::up);
  }

  std::string seen() const {
    const Report report = world_.report();
    const PathReport& path = path_to(report, peer_);
    return "lost " + std::to_string(path.rails_lost) + " back " + std::to_string(path.rails_back) +
           " up " + std::to_string(std::ranges::count_if(path.rails, &RailReport::up)) +
           " longest_ms " + std::to_string(static_cast<int>(1e3 * longest_s_)) + " rounds " +
           std::to_string(round_);
  }

 private:
  static SlotSpec spec(std::size_t i) {
    return {
        .name = "load" + std::to_string(i), .dtype = DType::i32, .shape = {kCounts[i]}, .depth = 2};
  }

  World& world_;
  const int peer_;
  std::vector<Slot> slots_;
  std::vector<RemoteSlot> remotes_;
  std::vector<Tensor> sources_;
  std::uint32_t round_ = 0;
  double longest_s_ = 0;
};

void soak(World& world, double seconds, const std::string& file) {
  constexpr double kPatience_s = 15;
  Soak load(world);
  (void)load.round(false);
  if (world.rank() == 0) tell(file + ".begun", "");
  const auto begun = Clock::now();
  while (!load.round(world.rank() == 0 && seconds_since(begun) >= seconds)) {
  }
  while (!std::filesystem::exists(file + ".stay") && !load.has_all_rails() &&
         seconds_since(begun) < seconds + kPatience_s)
    std::this_thread::sleep_for(milliseconds(10));
  tell(file + "." + std::to_string(world.rank()), load.seen());
  // A rank that has left has no rails.
  const std::string others = file + "." + std::to_string(1 - world.rank());
  for (const auto told = Clock::now();
       !std::filesystem::exists(others) && seconds_since(told) < kPatience_s;)
    std::this_thread::sleep_for(milliseconds(10));
}

/// Prints the shortest of them.
void rate(World& world, int puts, const std::string& file) {
  const SlotSpec spec{.name = "large", .dtype = DType::u8, .shape = {64 << 20}};
  const SlotSpec back{.name = "back", .dtype = DType::u8, .shape = {1}};
  Slot own = world.expose(world.rank() == 1 ? spec : back);
  RemoteSlot to = world.attach(1 - world.rank(), world.rank() == 1 ? back : spec);
  const Tensor source = world.allocate(DType::u8, world.rank() == 1 ? back.shape : spec.shape);
  double best_s = 1e9;
  for (int i = 0; i < puts; ++i) {
    const auto begun = Clock::now();
    if (world.rank() == 0) must(to.put(source).wait(), "put");
    must(own.wait().status(), "wait");
    if (world.rank() == 1) must(to.put(source).wait(), "put");
    best_s = std::min(best_s, seconds_since(begun));
  }
  tell(file + "." + std::to_string(world.rank()), std::to_string(static_cast<int>(1e6 * best_s)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("rails_load soak|rate NUMBER FILE");
    World world = World::join();
    if (world.size() != 2) throw std::runtime_error("it takes two ranks");
    if (std::string(argv[1]) == "soak")
      soak(world, std::atof(argv[2]), argv[3]);
    else
      rate(world, std::atoi(argv[2]), argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rails_load: %s\n", error.what());
    return 1;
  }
}
