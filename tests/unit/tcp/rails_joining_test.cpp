// Rails whose connections come one by one: the path begins with the first.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/tcp/one_end.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr auto kJoined = RailEvent::Kind::joined;

TEST(RailsOfAPath, ThatComeOneByOneAreWaitedForUntilTheFirst) {
  for (const std::size_t first : {0U, 1U}) {
    const std::size_t second = 1 - first;
    OneEnd end(2, true);
    end.post('a');
    end.post('b');
    EXPECT_TRUE(end.channel.rails().empty());
    end.answer(first);
    EXPECT_EQ(end.hear(first), "U" + std::to_string(first) + "ab");
    EXPECT_EQ(end.events, Events{kJoined});
    EXPECT_FALSE(end.channel.is_idle()) << "nothing of it has been taken yet";
    end.post('c');
    EXPECT_EQ(end.hear(first).back(), 'c');
    end.answer(second);
    EXPECT_EQ(end.hear(second), "U" + std::to_string(second));
    EXPECT_EQ(end.events, (Events{kJoined, kJoined}));
    EXPECT_EQ(end.broke(), "");
  }
}

TEST(RailsOfAPath, ThatThePeerConnectsOneByOneAreProvedByTheirFirstRecord) {
  OneEnd end(3, true);
  end.post('a');
  end.call(2);
  EXPECT_EQ(end.hear(2), "") << "it has not been proved";
  end.say(2, up(2, 0, 0));
  EXPECT_EQ(end.hear(2), "a");
  // The first takes over, once the last has brought all.
  end.call(0);
  end.say(0, up(0, 0, 0));
  EXPECT_EQ(end.hear(2), "?");
  end.post('b');
  EXPECT_EQ(end.hear(0) + end.hear(2), "");
  end.say(2, {.kind = Kind::taken, .sequence = 2});
  EXPECT_EQ(end.hear(0), "b");
  EXPECT_EQ(end.events, (Events{kJoined, kJoined}));
  EXPECT_EQ(end.broke(), "");
}

TEST(RailsOfAPath, ThatThePeerConnectsAreReportedAsUpFromTheirConnectionOn) {
  OneEnd end(2, true);
  EXPECT_TRUE(end.channel.rails().empty());
  end.call_over_ip(1);
  const auto rails = end.channel.rails();
  ASSERT_EQ(rails.size(), 1U);
  EXPECT_TRUE(rails[0].up) << "its first record has not come yet";
}

TEST(RailsOfAPath, ThatHaveNeverComeAreNoneThatIsLeft) {
  OneEnd end(2, true);
  end.call(0);
  end.say(0, up(0, 0, 0));
  end.cut(0);
  EXPECT_NE(end.broke(), "") << "it was the last";
}

// Its records that were not taken come again by the one that has come meanwhile.
TEST(RailsOfAPath, ThatComeLateTakeOverFromTheFirst) {
  OneEnd end(2, true);
  end.answer(0);
  end.post('a');
  EXPECT_EQ(end.hear(0), "U0a");
  end.answer(1);
  EXPECT_EQ(end.hear(1), "U1");
  end.cut(0);
  EXPECT_EQ(end.hear(1), "D0");
  end.say(1, down(0, 0, 1));
  EXPECT_EQ(end.hear(1), "a");
  end.call(0);
  end.say(0, up(0, 1, 0));
  EXPECT_EQ(end.events, (Events{kJoined, kJoined, RailEvent::Kind::down, RailEvent::Kind::up}));
  EXPECT_EQ(end.broke(), "");
}

}  // namespace
}  // namespace weft::p2p::tcp
