// The text and the JSON that weft-status prints of a job.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/tool/status/print_status.hpp"

namespace weft::tool {
namespace {

TEST(Status, TellsOfRailsThatFailed) {
  JobStatus job{.id = "job", .user = 0, .size = 2, .ranks = {}, .held_up = {}};
  job.ranks.resize(2);
  job.ranks[0].rank = 0;
  job.ranks[1].rank = 1;
  EXPECT_EQ(status_text(job, nullptr, 0).find("rails"), std::string::npos);
  job.ranks[1].rails.push_back({.peer = 0, .lost = 3, .back = 2});
  EXPECT_NE(status_text(job, nullptr, 0).find("\nrails: rank 1 to rank 0: 3 lost, 2 back\n"),
            std::string::npos);
  const auto ranks = status_json(job)["ranks"];
  EXPECT_TRUE(ranks[0]["rails"].empty());
  EXPECT_EQ(ranks[1]["rails"].dump(), R"([{"peer":0,"lost":3,"back":2}])");
}

TEST(Status, DoesNotTakeARankThatHasNotJoinedForOneOfAnotherHost) {
  JobStatus job{.id = "job", .user = 0, .size = 3, .ranks = {}, .held_up = {}};
  job.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) job.ranks[std::size_t(rank)].rank = rank;
  job.ranks[0].seen = SeenBy::itself;
  job.ranks[0].host = "a";
  job.ranks[2].host = "b";
  const std::string text = status_text(job, nullptr, 0);
  const auto line = [&](int rank) {
    const std::size_t at = text.find("\n    " + std::to_string(rank) + " ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(line(1).find("(has not joined)"), std::string::npos) << text;
  EXPECT_NE(line(2).find("(another host:"), std::string::npos) << text;
}

TEST(Status, TellsTheStepOfEachExecutorAndTheEdgeThatItAwaits) {
  JobStatus job{.id = "job", .user = 0, .size = 4, .ranks = {}, .held_up = {}};
  job.ranks.resize(4);
  for (int rank = 0; rank < 4; ++rank) job.ranks[std::size_t(rank)].rank = rank;
  const auto executor = [](std::uint64_t begun, std::uint64_t ended, bool failed) {
    return ExecutorStatus{
        .number = 2, .name = "graph", .begun = begun, .ended = ended, .failed = failed};
  };
  const auto awaits = [&](std::size_t rank, Role role, int peer, int more) {
    const std::string slot = "graph/7 y:0";
    job.ranks[rank].executors = {executor(18, 17, false)};
    job.ranks[rank].edges = {{slot, role, peer, {}}};
    job.ranks[rank].waits = {{.operation = stats::Operation::any, .seconds = 9},
                             {.operation = stats::Operation::step,
                              .peer = peer,
                              .slot = slot,
                              .sequence = 17,
                              .seconds = 1.25,
                              .executor = 2,
                              .more = more}};
  };
  awaits(0, Role::receives, 3, 0);
  awaits(1, Role::puts, 2, 5);
  job.ranks[2].executors = {executor(16, 16, false), executor(18, 17, true)};
  job.ranks[3].executors = {executor(18, 17, false), {.number = 3, .name = "b", .begun = 2}};
  job.ranks[3].waits = {{.operation = stats::Operation::step,
                         .peer = 0,
                         .sequence = 1,
                         .seconds = 2.5,
                         .executor = 3}};
  const std::string text = status_text(job, nullptr, 0);
  for (const char* line :
       {"\ngraph 'graph': rank 0: step 17, waiting for edge y:0 from rank 3, 1.2 s\n",
        "\ngraph 'graph': rank 1: step 17, waiting for edge y:0 to rank 2 and 5 more, 1.2 s\n",
        "\ngraph 'graph': rank 2: 16 steps, none runs\n",
        "\ngraph 'graph': rank 2: step 17 failed\n", "\ngraph 'graph': rank 3: step 17\n",
        "\ngraph 'b': rank 3: step 1, waiting for an edge with rank 0, 2.5 s\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const auto ranks = status_json(job)["ranks"];
  EXPECT_EQ(
      ranks[1]["executors"].dump(),
      R"([{"name":"graph","begun":18,"ended":17,"failed":false,"awaits":{"edge":"y:0","peer":2,"more":5,"seconds":1.25}}])");
  EXPECT_EQ(ranks[3]["executors"][0].dump(),
            R"({"name":"graph","begun":18,"ended":17,"failed":false})");
}

}  // namespace
}  // namespace weft::tool
