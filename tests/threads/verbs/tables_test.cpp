// Tables over fake NICs.
#include <gtest/gtest.h>

#include "tests/threads/pslib/own_share.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::tests {
namespace {

TEST(TablesByVerbs, MoveTheRanksOwnShareInAStep) {
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    Meeting meeting(ranks);
    NicJob().run(ranks, [&](World& world) {
      expect_to_receive_its_own_share(world, meeting,
                                      pslib::TableOptions(pslib::Optimizer::sgd(0.1F)));
    });
  }
}

TEST(TablesByVerbs, MoveTheRowsThatAreAsked) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    Meeting meeting(ranks);
    NicJob().run(ranks, [&](World& world) { expect_to_receive_what_is_asked(world, meeting); });
  }
}

}  // namespace
}  // namespace weft::tests
