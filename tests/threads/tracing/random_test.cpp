// Random sequences of nodes, allocations, sends and frees beside a plain model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/seeds.hpp"
#include "tests/threads/tracing/traced.hpp"

namespace weft::dataflow {
namespace {

constexpr std::uint64_t kSeeds = tests::seeds(300);
constexpr int kSteps = 6;
constexpr int kNodes = 6;

using ModelSite = std::pair<int, std::uint32_t>;  // node, allocation

/// A tensor, and what the model says of it.
struct Live {
  Tensor tensor;
  ModelSite site;
  bool is_plain = false;
  std::uint8_t mark = 0;  ///< all its bytes
};

/// The paper's maps in plain containers.
struct Model {
  std::set<ModelSite> cut;
  std::map<ModelSite, std::uint64_t> sent_in;
  std::set<ModelSite> sites;
  std::uint64_t step = 1;
  TracingCounters counters;

  bool is_plain(TracingMode mode, const ModelSite& site) const {
    if (mode == TracingMode::cut_edges) return !cut.contains(site);
    const auto sent = sent_in.find(site);
    return mode == TracingMode::off || sent == sent_in.end() || sent->second == step;
  }
};

class RandomRun {
 public:
  RandomRun(World& world, TracingMode mode, std::uint64_t seed)
      : world_(world), mode_(mode), tracer_(world, {.mode = mode}), random_(seed) {
    for (int i = 0; i < 4; ++i) {
      const ModelSite site{below(kNodes), static_cast<std::uint32_t>(below(4))};
      tracer_.mark_cut(name_of(site.first), site.second);
      model_.cut.insert(site);
      for (std::uint32_t k = 0; k <= site.second; ++k) model_.sites.insert({site.first, k});
    }
  }

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      for (int runs = below(12); runs > 0; --runs) run_node(below(kNodes), {});
      for (int sends = below(6); sends > 0; --sends) send_one();
      tracer_.next_step();
      ++model_.step;
      ++model_.counters.steps;
    }
    while (!live_.empty()) free_one();
    compare();
  }

 private:
  static std::string name_of(int node) { return "node " + std::to_string(node); }
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  void run_node(int node, std::set<int> outer) {
    const auto running = tracer_.enter(name_of(node));
    outer.insert(node);
    std::uint32_t allocations = 0;
    for (int actions = below(8); actions > 0; --actions) switch (below(6)) {
        case 0:
          free_one();
          break;
        case 1:
          send_one();
          break;
        case 2:
          if (const int inner = below(kNodes); !outer.contains(inner)) run_node(inner, outer);
          break;
        default:
          allocate({node, allocations++});
      }
  }

  void allocate(const ModelSite& site) {
    const Shape shape{1 + below(6), 1 + below(40), 1 + below(4)};
    Live one{tracer_.allocate(DType::i32, shape), site, model_.is_plain(mode_, site), ++mark_};
    EXPECT_EQ(one.tensor.arena() == nullptr, one.is_plain);
    if (mode_ == TracingMode::sites && !one.is_plain) {
      EXPECT_TRUE(traced::in_arena(world_, one.tensor));
    }
    std::ranges::fill(one.tensor.as<std::uint8_t>(), one.mark);
    ++(one.is_plain ? model_.counters.plain_allocations : model_.counters.registered_allocations);
    if (mode_ == TracingMode::cut_edges && !one.is_plain) ++model_.counters.registrations;
    model_.sites.insert(site);
    live_.push_back(std::move(one));
  }

  /// The tensor itself, a slice, a part, or an alias of one.
  Tensor part_of(const Tensor& tensor) {
    switch (below(4)) {
      case 0:
        return tensor.slice(1, below(static_cast<int>(tensor.shape()[1])), 1);
      case 1:
        return tensor.part(tensor.shape().elements() - 1, {1});
      case 2:
        return tensor.part(0, {tensor.shape().elements()}).part(0, tensor.shape());
      default:
        return tensor;
    }
  }

  void send_one() {
    if (live_.empty()) return;
    const Live& one = live_[static_cast<std::size_t>(below(static_cast<int>(live_.size())))];
    const Tensor tensor = part_of(one.tensor);
    const Tensor sent = tracer_.to_send(tensor);
    const bool is_copied = one.is_plain || mode_ == TracingMode::off;
    EXPECT_EQ(sent.data() != tensor.data(), is_copied);
    EXPECT_EQ(sent.shape(), tensor.shape());
    EXPECT_EQ(sent.dtype(), tensor.dtype());
    EXPECT_NE(sent.arena(), nullptr);
    EXPECT_TRUE(holds(sent, one.mark));
    ++model_.counters.sends;
    if (one.is_plain) model_.sent_in.try_emplace(one.site, model_.step);
    if (!is_copied) return;
    ++model_.counters.copies;
    model_.counters.bytes_copied += tensor.bytes();
  }

  void free_one() {
    if (live_.empty()) return;
    std::swap(live_[static_cast<std::size_t>(below(static_cast<int>(live_.size())))], live_.back());
    EXPECT_TRUE(holds(live_.back().tensor, live_.back().mark)) << "another tensor wrote there";
    live_.pop_back();
  }

  static bool holds(const Tensor& tensor, std::uint8_t mark) {
    bool same = true;
    for_each_run(tensor, [&](const std::byte* data, std::size_t bytes) {
      same = same && std::all_of(data, data + bytes,
                                 [&](std::byte byte) { return byte == std::byte{mark}; });
    });
    return same;
  }

  void compare() const {
    const TracingCounters counted = tracer_.counters();
    const TracingCounters& expected = model_.counters;
    EXPECT_EQ(counted.steps, expected.steps);
    EXPECT_EQ(counted.plain_allocations, expected.plain_allocations);
    EXPECT_EQ(counted.registered_allocations, expected.registered_allocations);
    EXPECT_EQ(counted.sends, expected.sends);
    EXPECT_EQ(counted.copies, expected.copies);
    EXPECT_EQ(counted.bytes_copied, expected.bytes_copied);
    EXPECT_EQ(counted.registrations, expected.registrations);
    EXPECT_EQ(counted.sites, model_.sites.size());
    EXPECT_EQ(counted.sent_sites, model_.sent_in.size());
    EXPECT_EQ(counted.late_sites,
              static_cast<std::uint64_t>(std::ranges::count_if(
                  model_.sent_in, [](const auto& one) { return one.second > 1; })));
    for (const TracedSite& site : tracer_.report().sites) {
      const auto sent = model_.sent_in.find({site.node.back() - '0', site.allocation});
      EXPECT_EQ(site.sent_in, sent == model_.sent_in.end() ? 0 : sent->second)
          << site.node << ", allocation " << site.allocation;
    }
  }

  World& world_;
  const TracingMode mode_;
  TracingAllocator tracer_;
  std::mt19937_64 random_;
  Model model_;
  std::vector<Live> live_;
  std::uint8_t mark_ = 0;
};

/// The first seed: WEFT_TEST_SEED, to repeat a run, or one that no run had before.
std::uint64_t first_seed() {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

TEST(RandomTracing, DoesWhatAPlainModelDoes) {
  const std::uint64_t first = first_seed();
  std::cout << kSeeds << " seeds from " << first << " on\n";
  traced::run_alone([first](World& world) {
    for (std::uint64_t seed = first; seed < first + kSeeds; ++seed)
      for (const TracingMode mode :
           {TracingMode::sites, TracingMode::cut_edges, TracingMode::off}) {
        SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + ", mode " +
                     std::string(name(mode)));
        RandomRun(world, mode, seed).run();
        if (HasFailure()) return;
      }
    EXPECT_EQ(tests::arena(world, "data").used_bytes, 0U);
  });
}

}  // namespace
}  // namespace weft::dataflow
