// Every collective against every way in which one rank can differ from the others: the call
// completes on no rank, and each rank's error names both sides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using Kind = CollectiveKind;

enum class Way { operation, root, size, dtype, reduction, order, number_of_calls };

constexpr std::array kKinds{Kind::barrier,        Kind::broadcast,  Kind::reduce, Kind::all_reduce,
                            Kind::reduce_scatter, Kind::all_gather, Kind::gather, Kind::scatter,
                            Kind::all_to_all,     Kind::scan};
constexpr std::array kWays{Way::operation, Way::root,  Way::size,           Way::dtype,
                           Way::reduction, Way::order, Way::number_of_calls};

const char* text_of(Way way) {
  constexpr std::array kTexts{"operation", "root",  "size",           "dtype",
                              "reduction", "order", "number of calls"};
  return kTexts[static_cast<std::size_t>(way)];
}

bool has_root(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::gather ||
         kind == Kind::scatter;
}

bool combines(Kind kind) {
  return kind == Kind::reduce || kind == Kind::all_reduce || kind == Kind::reduce_scatter ||
         kind == Kind::scan;
}

bool makes_sense(Kind kind, Way way) {
  if (way == Way::root) return has_root(kind);
  if (way == Way::reduction) return combines(kind);
  return kind != Kind::barrier || (way != Way::size && way != Way::dtype);
}

/// The call of one rank.
struct Asked {
  Kind kind;
  int root = 0;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
};

Call call_of(World& world, const Asked& asked) {
  const std::int64_t size = world.size();
  const auto make = [&](std::int64_t count) { return world.allocate(asked.dtype, {count}); };
  const Tensor part = make(asked.count);
  switch (asked.kind) {
    case Kind::barrier:
      return barrier();
    case Kind::broadcast:
      return broadcast(part, asked.root);
    case Kind::reduce:
      return reduce(part, make(asked.count), asked.reduction, asked.root);
    case Kind::all_reduce:
      return all_reduce(part, asked.reduction);
    case Kind::reduce_scatter:
      return reduce_scatter(make(asked.count * size), part, asked.reduction);
    case Kind::all_gather:
      return all_gather(part, make(asked.count * size));
    case Kind::gather:
      return gather(part, make(asked.count * size), asked.root);
    case Kind::scatter:
      return scatter(make(asked.count * size), part, asked.root);
    case Kind::all_to_all:
      return all_to_all(make(asked.count * size), make(asked.count * size));
    default:
      return scan(part, make(asked.count), asked.reduction);
  }
}

/// The calls of one rank; the last call must complete on no rank.
std::vector<Asked> calls_of(Kind kind, Way way, std::int64_t count, int ranks, bool odd) {
  const Asked usual{.kind = kind, .root = 0, .count = count};
  // A call that waits for all ranks, so that no rank goes on alone.
  const Asked last{.kind = kind == Kind::all_reduce ? Kind::barrier : Kind::all_reduce, .count = 3};
  Asked other = usual;
  switch (way) {
    case Way::operation:
      other.kind = kind == Kind::all_gather ? Kind::all_reduce : Kind::all_gather;
      break;
    case Way::root:
      other.root = ranks - 1;
      break;
    case Way::size:
      ++other.count;
      break;
    case Way::dtype:
      other.dtype = DType::i32;
      break;
    case Way::reduction:
      other.reduction = Reduction::max;
      break;
    case Way::order:
      return odd ? std::vector{last, usual} : std::vector{usual, last};
    case Way::number_of_calls:
      return odd ? std::vector{usual, last} : std::vector{usual, usual, last};
  }
  return {odd ? other : usual, last};
}

/// The ranks that a text names: "rank 1", or "ranks 1 and 3".
std::vector<int> named_in(const std::string& text) {
  static const std::regex kNamed("ranks? ([0-9]+)(?: and ([0-9]+))?");
  std::vector<int> ranks;
  for (std::sregex_iterator at(text.begin(), text.end(), kNamed), end; at != end; ++at)
    for (const std::size_t group : {1U, 2U})
      if ((*at)[group].matched) ranks.push_back(std::stoi((*at)[group].str()));
  return ranks;
}

struct Party {
  int ranks;
  const char* fabric;
};

void PrintTo(const Party& party, std::ostream* out) {
  *out << party.ranks << " ranks by " << party.fabric;
}

class Disagreements : public testing::TestWithParam<Party> {};

TEST_P(Disagreements, EndOnEveryRankWithBothSidesInTheText) {
  const int ranks = GetParam().ranks;
  Meeting meeting(ranks);
  run_on(ranks, settings().with(Setting::fabric, GetParam().fabric), [&](World& world) {
    for (const Kind kind : kKinds)
      for (const Way way : kWays)
        for (const std::int64_t count : {5, 3000}) {
          if (!makes_sense(kind, way)) continue;
          const int odd = (static_cast<int>(kind) + static_cast<int>(way)) % ranks;
          const std::string cell = std::string(text_of(way)) + " of collective " +
                                   std::to_string(static_cast<int>(kind)) + " with " +
                                   std::to_string(count) + " elements, rank " +
                                   std::to_string(odd) + " differs; on rank " +
                                   std::to_string(world.rank());
          // No rank's failure may end a group that another rank is still opening.
          Collectives group = Collectives::open(world);
          meeting.wait();
          Status status;
          for (const Asked& asked : calls_of(kind, way, count, ranks, world.rank() == odd))
            if (status.ok()) status = group.run(call_of(world, asked));
          ASSERT_EQ(status.code(), Code::mismatch) << cell << ": " << status.text();
          const std::vector<int> named = named_in(status.detail().message);
          EXPECT_TRUE(std::ranges::find(named, odd) != named.end() && named.size() >= 2 &&
                      std::ranges::any_of(named, [&](int rank) { return rank != odd; }))
              << cell << ": " << status.text();
        }
  });
}

/// Within a host even the call itself completes on no rank.
TEST(DisagreementsWithinAHost, LetNoRankThroughTheCallItself) {
  for (const int ranks : {2, 3, 5})
    run_on(ranks, [&](World& world) {
      for (const Kind kind : kKinds)
        for (const Way way : {Way::operation, Way::root, Way::size})
          for (const std::int64_t count : {5, 3000}) {
            if (!makes_sense(kind, way)) continue;
            Collectives group = Collectives::open(world);
            ASSERT_TRUE(group.run(barrier()).ok());
            const bool odd = world.rank() == ranks - 1;
            const Asked asked = calls_of(kind, way, count, ranks, odd).front();
            const Status status = group.run(call_of(world, asked));
            EXPECT_EQ(status.code(), Code::mismatch)
                << text_of(way) << " of collective " << static_cast<int>(kind) << ", rank "
                << world.rank();
          }
    });
}

TEST_P(Disagreements, AboutTheGroupEndOpeningItAndNameBothGroups) {
  const int ranks = GetParam().ranks;
  Meeting meeting(ranks);
  run_on(ranks, settings().with(Setting::fabric, GetParam().fabric), [&](World& world) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    if (world.rank() == ranks - 1) std::ranges::reverse(all);
    const ErrorDetail detail = thrown_by([&] {
      (void)Collectives::open(world, all, Deadline::after(std::chrono::milliseconds(500)));
    });
    EXPECT_EQ(detail.code, Code::timeout);
    const bool odd = world.rank() == ranks - 1;
    EXPECT_EQ(detail.peer == ranks - 1, !odd) << detail.message;
    const int last = ranks - 1;
    const std::string forwards = ranks == 2 ? "ranks 0, 1" : "ranks 0, 1, 2";
    const std::string backwards = fmt::format("ranks {}, {}", last, last - 1);
    const auto own = detail.message.find(odd ? backwards : forwards);
    const auto theirs =
        detail.message.find(odd ? "but one of " + forwards : "but one of " + backwards);
    EXPECT_TRUE(own < theirs && theirs != std::string::npos) << detail.message;
    meeting.wait();
  });
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
INSTANTIATE_TEST_SUITE_P(Jobs, Disagreements, testing::Values(Party{3, "auto"}, Party{3, "tcp"}));
#else
INSTANTIATE_TEST_SUITE_P(Jobs, Disagreements,
                         testing::Values(Party{2, "auto"}, Party{3, "auto"}, Party{5, "auto"},
                                         Party{8, "auto"}, Party{2, "tcp"}, Party{3, "tcp"},
                                         Party{5, "tcp"}, Party{8, "tcp"}));
#endif

}  // namespace
}  // namespace weft::tests
