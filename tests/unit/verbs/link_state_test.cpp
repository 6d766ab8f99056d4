// The words of two ends about a link that was lost, true and false ones.
#include "p2p/transport/verbs/link_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::p2p::verbs {
namespace {

using Type = LinkMessage::Type;
constexpr std::array kTypes{Type::down,  Type::resent, Type::settled,
                            Type::again, Type::ready,  Type::resumed};

/// One end, without queue pairs: it does what it can at once.
struct End {
  LinkState state;
  struct Word {
    Type type;
    std::uint32_t generation;
    bool is_at_once = false;  ///< may pass by those before it
  };
  std::deque<Word> sent;
  /// A word said at once is said again when the link is lost that carries it, once at most here.
  bool may_repeat = false;
  bool offers = false;
  bool has_offered = false;

  void say(Type type) { sent.push_back({type, state.generation()}); }
  void lose() { (void)state.lose(); }
  /// Whether a request of the other end would pass.
  bool answers() const {
    return state.phase() == LinkPhase::proving || state.phase() == LinkPhase::proven ||
           state.phase() == LinkPhase::up;
  }
  /// One step, if there is one.
  bool step(const End& other) {
    switch (state.phase()) {
      case LinkPhase::draining:
        if (state.peer_begins_anew()) {
          sent.push_back({Type::down, state.generation(), true});
          may_repeat = true;
        } else {
          say(Type::down);
          may_repeat = false;
        }
        break;
      case LinkPhase::told:
        if (!state.peer_is_down()) return false;
        break;
      case LinkPhase::settling:
        say(Type::resent);
        say(Type::settled);
        break;
      case LinkPhase::settled:
        return false;
      case LinkPhase::quiet:
        if (!offers && !state.peer_begins_anew() && !state.peer_is_down()) return false;
        has_offered = false;
        break;
      case LinkPhase::resetting:
        break;
      case LinkPhase::offered:
        if (state.peer_is_down()) return state.lose();
        if (!has_offered) {
          say(Type::again);
          return has_offered = true;
        }
        if (!state.peer_begins_anew()) return false;
        break;
      case LinkPhase::proving:
        if (state.peer_is_down()) return state.lose();
        if (!other.answers()) return false;
        say(Type::ready);
        break;
      case LinkPhase::proven:
        if (state.peer_is_down()) return state.lose();
        if (!state.peer_is_ready()) return false;
        say(Type::resumed);
        break;
      case LinkPhase::up:
        return state.peer_is_down() && state.lose();
    }
    state.advance();
    return true;
  }
  bool repeat() {
    const bool may = state.phase() == LinkPhase::told || state.phase() == LinkPhase::settling ||
                     state.phase() == LinkPhase::settled;
    if (!std::exchange(may_repeat, false) || !may) return false;
    sent.push_back({Type::down, state.generation(), true});
    return true;
  }
};

/// All that a peer may truly say next.
std::set<Type> accepted(const LinkState& state, std::uint32_t generation) {
  std::set<Type> types;
  for (const Type type : kTypes) {
    LinkState copy = state;
    if (copy.hear(type, generation)) types.insert(type);
  }
  return types;
}

using Ends = std::array<End, 2>;

std::string key_of(const Ends& ends) {
  std::string key;
  for (const End& end : ends) {
    key += ";" + std::to_string(static_cast<int>(end.state.phase())) + "," +
           std::to_string(end.state.generation()) + (end.state.peer_is_down() ? "d" : "") +
           (end.state.peer_begins_anew() ? "a" : "") + (end.state.peer_is_ready() ? "r" : "") +
           (end.has_offered ? "o" : "") + (end.may_repeat ? "m" : "");
    for (const Type type : accepted(end.state, end.state.generation()))
      key += std::to_string(static_cast<int>(type));
    for (const End::Word& word : end.sent)
      key += (word.is_at_once ? " !" : " ") + std::to_string(static_cast<int>(word.type)) + "/" +
             std::to_string(word.generation);
  }
  return key;
}

/// All that may come next: either end acts, hears the other's next word, or loses the link.
std::vector<Ends> all_next(const Ends& ends) {
  std::vector<Ends> all;
  for (std::size_t i = 0; i < 2; ++i) {
    Ends next = ends;
    if (next[i].step(ends[1 - i])) all.push_back(next);
    next = ends;
    const auto hear = [&](std::size_t which) {
      auto& words = next[1 - i].sent;
      const End::Word word = words[which];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(which));
      EXPECT_TRUE(next[i].state.hear(word.type, word.generation))
          << static_cast<int>(word.type) << " is no nonsense: " << key_of(ends);
      all.push_back(next);
      next = ends;
    };
    if (!next[1 - i].sent.empty()) hear(0);
    const auto& words = ends[1 - i].sent;
    const auto first = std::ranges::find(words, true, &End::Word::is_at_once);
    if (first != words.end() && first != words.begin())
      hear(static_cast<std::size_t>(first - words.begin()));
    next = ends;
    if (next[i].repeat()) all.push_back(next);
    next = ends;
    if (next[i].state.generation() < 3 && next[i].state.lose()) all.push_back(next);
  }
  return all;
}

bool is_up(const Ends& ends) {
  return std::ranges::all_of(ends, [](const End& end) {
    return end.state.phase() == LinkPhase::up && end.sent.empty() && !end.state.peer_is_down();
  });
}

TEST(ALostLink, IsUnderstoodByBothEndsAndComesBackInWhateverOrderTheyAct) {
  Ends first;
  for (End& end : first) end.offers = true;
  std::set<std::string> seen{key_of(first)};
  std::deque<Ends> open{first};
  for (; !open.empty() && !HasFailure(); open.pop_front()) {
    const std::vector<Ends> all = all_next(open.front());
    // Neither end waits for a word that will not come.
    EXPECT_TRUE(!all.empty() || is_up(open.front())) << key_of(open.front());
    for (const Ends& next : all)
      if (seen.insert(key_of(next)).second) open.push_back(next);
  }
  EXPECT_GT(seen.size(), 1000U);
}

TEST(ALostLink, UnderstandsThatItIsDownBeforeWhatWasSaidEarlier) {
  // At once, where `again`, `ready` and `resumed` have to be sent again by another link.
  LinkState state;
  ASSERT_TRUE(state.lose());
  ASSERT_TRUE(state.hear(Type::down, 0));
  for (int i = 0; i < 2; ++i) state.advance();
  ASSERT_TRUE(state.hear(Type::settled, 0));
  state.advance();
  ASSERT_EQ(state.phase(), LinkPhase::quiet);
  ASSERT_TRUE(state.hear(Type::down, 1));
  EXPECT_EQ(accepted(state, 1), (std::set{Type::down, Type::again}));
  for (const Type late : {Type::again, Type::ready, Type::resumed}) {
    EXPECT_TRUE(state.hear(late, 1));
    EXPECT_FALSE(state.hear(late, 1)) << "once";
  }
}

TEST(ALostLink, RefusesWordsThatCantBeTrue) {
  LinkState state;
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down}));
  EXPECT_EQ(accepted(state, 1), std::set<Type>{});
  ASSERT_TRUE(state.lose());
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down})) << "nothing is sent again before both know";
  ASSERT_TRUE(state.hear(Type::down, 0));
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down}))
      << "but that again, and nothing is sent again before this end has told";
  state.advance();
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down, Type::resent, Type::settled}));
  state.advance();
  ASSERT_TRUE(state.hear(Type::settled, 0));
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down})) << "that was the last";
  state.advance();
  EXPECT_EQ(state.phase(), LinkPhase::quiet);
  EXPECT_EQ(state.generation(), 1U);
  EXPECT_EQ(accepted(state, 0), (std::set{Type::down})) << "of the past, said again";
  EXPECT_EQ(accepted(state, 1), (std::set{Type::down, Type::again}));
  ASSERT_TRUE(state.hear(Type::again, 1));
  EXPECT_EQ(accepted(state, 1), (std::set{Type::down})) << "not ready before this end has begun";
  for (int i = 0; i < 3; ++i) state.advance();
  ASSERT_EQ(state.phase(), LinkPhase::proving);
  EXPECT_EQ(accepted(state, 1), (std::set{Type::down, Type::ready}));
  ASSERT_TRUE(state.hear(Type::ready, 1));
  state.advance();
  EXPECT_EQ(accepted(state, 1), (std::set{Type::down, Type::resumed}));
  state.advance();
  EXPECT_EQ(state.phase(), LinkPhase::up);
}

}  // namespace
}  // namespace weft::p2p::verbs
