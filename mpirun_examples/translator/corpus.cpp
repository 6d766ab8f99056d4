#include "translator/corpus.hpp"

#include <algorithm>
#include <numeric>

#include "lessons/draws.hpp"

namespace translator {
namespace {

using lessons::Draws;
using Words = std::vector<std::int32_t>;

constexpr int kDeterminers = 3;
constexpr int kNouns = 240;
constexpr int kAdjectives = 80;
constexpr int kVerbs = 120;
constexpr int kPrepositions = 8;

// The first number of each class of words.
constexpr int kNoun = kDeterminers;
constexpr int kAdjective = kNoun + kNouns;
constexpr int kVerb = kAdjective + kAdjectives;
constexpr int kPreposition = kVerb + kVerbs;
static_assert(kPreposition + kPrepositions == Corpus::kSourceWords);

// In the translation determiners and adjectives have two genders.
constexpr int kParticle = 2;
constexpr int kToDeterminer = 3;
constexpr int kToNoun = kToDeterminer + 2 * kDeterminers;
constexpr int kToAdjective = kToNoun + kNouns;
constexpr int kToVerb = kToAdjective + 2 * kAdjectives;
constexpr int kToPreposition = kToVerb + kVerbs;
static_assert(kToPreposition + kPrepositions == Corpus::kTargetWords);

Words shuffled(int count, Draws& draws) {
  Words all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  draws.shuffle(all);
  return all;
}

/// A noun with its determiner, and perhaps an adjective.
struct Phrase {
  int determiner, noun;
  int adjective;  ///< -1: none
};

Phrase draw_phrase(Draws& draws, bool has_adjective) {
  return {draws.often_small(kDeterminers), draws.often_small(kNouns),
          has_adjective ? draws.often_small(kAdjectives) : -1};
}

void say(const Phrase& phrase, Words& to) {
  to.push_back(phrase.determiner);
  if (phrase.adjective >= 0) to.push_back(kAdjective + phrase.adjective);
  to.push_back(kNoun + phrase.noun);
}

/// Word i of sentence s lies at [i * sentences + s].
Sentences side_by_side(const std::vector<Words>& all) {
  Sentences made{static_cast<int>(all[0].size()), {}};
  for (std::size_t i = 0; i < all[0].size(); ++i)
    for (const Words& sentence : all) made.ids.push_back(sentence[i]);
  return made;
}

}  // namespace

Corpus::Corpus(std::uint64_t seed) : seed_(seed) {
  Draws draws({seed, 2});
  nouns_ = shuffled(kNouns, draws);
  adjectives_ = shuffled(kAdjectives, draws);
  verbs_ = shuffled(kVerbs, draws);
  prepositions_ = shuffled(kPrepositions, draws);
  for (int i = 0; i < kNouns; ++i) second_gender_.push_back(draws.unit() < 0.5);
}

Pairs Corpus::draw(int sentences, int worker, std::uint64_t step) const {
  Draws draws({seed_, 3, static_cast<std::uint64_t>(worker), step});
  const bool has_place = draws.below(2) == 1;  // a preposition with a phrase of its own
  const int phrases = has_place ? 3 : 2;
  const int adjectives = draws.below(phrases);
  const auto at = [](const Words& words, int i) { return words[static_cast<std::size_t>(i)]; };
  const auto translate = [&](const Phrase& phrase, Words& to) {
    const int gender = second_gender_[static_cast<std::size_t>(phrase.noun)] ? 1 : 0;
    to.push_back(kToDeterminer + 2 * phrase.determiner + gender);
    to.push_back(kToNoun + at(nouns_, phrase.noun));
    if (phrase.adjective >= 0)
      to.push_back(kToAdjective + 2 * at(adjectives_, phrase.adjective) + gender);
  };

  std::vector<Words> source;
  std::vector<Words> target;
  for (int s = 0; s < sentences; ++s) {
    std::vector<char> has_adjective(static_cast<std::size_t>(phrases), 0);
    std::fill_n(has_adjective.begin(), adjectives, 1);
    draws.shuffle(has_adjective);
    const Phrase subject = draw_phrase(draws, has_adjective[0] != 0);
    const int verb = draws.often_small(kVerbs);
    const Phrase object = draw_phrase(draws, has_adjective[1] != 0);

    Words& from = source.emplace_back();
    Words& to = target.emplace_back();
    say(subject, from);
    from.push_back(kVerb + verb);
    say(object, from);
    translate(subject, to);
    translate(object, to);
    if (has_place) {
      const int preposition = draws.below(kPrepositions);
      const Phrase place = draw_phrase(draws, has_adjective[2] != 0);
      from.push_back(kPreposition + preposition);
      say(place, from);
      translate(place, to);
      to.push_back(kToPreposition + at(prepositions_, preposition));
      to.push_back(kParticle);
    }
    to.push_back(kToVerb + at(verbs_, verb));
    to.push_back(kEnd);
  }
  return {side_by_side(source), side_by_side(target)};
}

}  // namespace translator
