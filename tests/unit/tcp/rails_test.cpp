// Rails that fail one after another, and come back, at one end.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/tcp/one_end.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr auto kDown = RailEvent::Kind::down;
constexpr auto kUp = RailEvent::Kind::up;

TEST(RailsOfAPath, LoseNothingWhenOneFails) {
  OneEnd end(2);
  end.post('a');
  end.post('b');
  EXPECT_EQ(end.hear(0), "ab");
  end.cut(0);
  EXPECT_EQ(end.hear(1), "D0");
  end.post('c');
  EXPECT_EQ(end.hear(1), "") << "it has overtaken what may be sent again";
  end.say(1, down(0, 0, 1));
  EXPECT_EQ(end.hear(1), "bc");
  EXPECT_EQ(end.events, Events{kDown});
  EXPECT_EQ(end.broke(), "");
}

TEST(RailsOfAPath, LetOnlyMessagesThatMayDoItOvertakeATensorInPieces) {
  OneEnd end(2);
  end.say(0, {.kind = Kind::striped, .address = 3, .key = 1});
  end.say_message(0, MessageType::attach);
  end.say_message(0, MessageType::chunk_wanted);
  EXPECT_EQ(end.broke(), "");
  end.say_message(0, MessageType::detach);
  EXPECT_NE(end.broke().find("overtakes a tensor in pieces"), std::string::npos) << end.broke();
}

// The peer's word of the first rail is lost with the second, after it has connected the first anew.
TEST(RailsOfAPath, GoOnByOneThatIsBackBeforeItsEndWasTold) {
  for (const std::uint64_t taken : {0, 1}) {
    OneEnd end(2);
    end.post('a');
    EXPECT_EQ(end.hear(0), "a");
    end.cut(0);
    EXPECT_EQ(end.hear(1), "D0");
    end.call(0);
    end.cut(1);
    EXPECT_EQ(end.hear(0), "") << "by a connection that has not been proved";
    end.say(0, up(0, 1, taken));
    EXPECT_EQ(end.hear(0), taken == 0 ? "aD1" : "D1");
    EXPECT_EQ(end.events, Events{RailEvent::Kind::replaced});
    end.say(0, down(1, 0, 1));  // that is, "D0" was the one that it has taken
    end.post('b');
    EXPECT_EQ(end.hear(0), "b");
    EXPECT_EQ(end.events, (Events{RailEvent::Kind::replaced, kDown}));
    EXPECT_EQ(end.broke(), "");
  }
}

// As it should be: the peer's word comes by the other rail, before or after the new connection.
TEST(RailsOfAPath, TakeThePeersWordByWhicheverRailItComes) {
  OneEnd end(2);
  end.post('a');
  EXPECT_EQ(end.hear(0), "a");
  end.cut(0);
  end.call(0);
  end.say(1, down(0, 0, 0));
  EXPECT_EQ(end.hear(1), "D0a");
  end.say(0, up(0, 1, 0));
  EXPECT_EQ(end.events, (Events{kDown, kUp}));
  end.say(1, down(0, 0, 0));  // of the connection before
  end.say(0, {.kind = Kind::bell});
  EXPECT_EQ(end.events, (Events{kDown, kUp}));
  EXPECT_EQ(end.broke(), "");
}

TEST(RailsOfAPath, EndItIfANewConnectionFailsBeforeItIsProved) {
  OneEnd end(2);
  end.cut(0);
  end.call(0);
  end.cut(0);
  EXPECT_EQ(end.events, Events{});
  end.say(1, down(0, 0, 0));
  EXPECT_EQ(end.events, Events{kDown});
  EXPECT_EQ(end.broke(), "");
  end.cut(1);
  EXPECT_NE(end.broke(), "") << "it was the last";
}

// Its word of rail 2 was by rail 0, which has not brought it, and no other rail is up.
TEST(RailsOfAPath, TellOfEachThoughAllFailBeforeOneIsBack) {
  OneEnd end(3);
  end.cut(2);
  EXPECT_EQ(end.hear(0), "D2");
  end.cut(0);
  EXPECT_EQ(end.hear(1), "D0");
  end.call(0);
  end.cut(1);
  end.say(0, up(0, 1, 0));
  const std::string heard = end.hear(0);
  EXPECT_NE(heard.find("D1"), std::string::npos) << heard;
  EXPECT_NE(heard.find("D2"), std::string::npos) << heard;
  EXPECT_EQ(end.broke(), "");
}

/// Rail 0 was lost, and is back; so far rail 1 has brought "D0?".
void bring_back_the_first(OneEnd& end) {
  end.cut(0);
  end.say(1, down(0, 0, 0));
  EXPECT_EQ(end.hear(1), "D0");
  end.call(0);
  end.say(0, up(0, 1, 0));
  EXPECT_EQ(end.hear(1), "?");
}

TEST(RailsOfAPath, GoByTheFirstAgainOnceTheOtherHasBroughtAll) {
  OneEnd end(2);
  bring_back_the_first(end);
  end.post('a');
  EXPECT_EQ(end.hear(0) + end.hear(1), "") << "it may overtake";
  end.say(1, {.kind = Kind::taken, .sequence = 1});
  EXPECT_EQ(end.hear(0) + end.hear(1), "");
  end.say(1, {.kind = Kind::taken, .sequence = 2});
  EXPECT_EQ(end.hear(0), "a");
  EXPECT_EQ(end.hear(1), "");
  EXPECT_EQ(end.broke(), "");
}

TEST(RailsOfAPath, KeepTheOrderIfOneFailsWhileTheFirstTakesOver) {
  for (const std::size_t cut : {0U, 1U}) {
    OneEnd end(2);
    end.cut(0);
    end.say(1, down(0, 0, 0));
    end.post('a');
    EXPECT_EQ(end.hear(1), "D0a");
    end.call(0);
    end.say(0, up(0, 1, 0));
    EXPECT_EQ(end.hear(1), "?");
    end.post('b');
    end.cut(cut);
    if (cut == 1) {
      end.say(0, down(1, 0, 1));
      EXPECT_EQ(end.hear(0), "D1a?b");
    } else {
      EXPECT_EQ(end.hear(1), "D0");
      end.say(1, {.kind = Kind::taken, .sequence = 4});
      EXPECT_EQ(end.hear(1), "b");
    }
    EXPECT_EQ(end.broke(), "");
  }
}

}  // namespace
}  // namespace weft::p2p::tcp
