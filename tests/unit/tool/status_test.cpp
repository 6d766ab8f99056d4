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

}  // namespace
}  // namespace weft::tool
