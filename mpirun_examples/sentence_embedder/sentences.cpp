#include "sentence_embedder/sentences.hpp"

#include <numeric>

#include "lessons/draws.hpp"

namespace embedder {
namespace {

constexpr int kShortest = 5;
constexpr int kLengths = 6;
/// The share of a sentence's words that are of its topic.
constexpr double kOfTopic = 0.8;

}  // namespace

Sentences::Sentences(std::uint64_t seed) : seed_(seed), translations_(kWords) {
  lessons::Draws draws({seed, 4});
  std::iota(translations_.begin(), translations_.end(), 0);
  draws.shuffle(translations_);
}

Pairs Sentences::draw(int sentences, int worker, std::uint64_t step) const {
  lessons::Draws draws({seed_, 5, static_cast<std::uint64_t>(worker), step});
  const int words = kShortest + draws.below(kLengths);
  const auto count = static_cast<std::size_t>(sentences);
  Pairs made{.first_words = words, .first = {}, .second_words = words - 1, .second = {}};
  made.first.resize(static_cast<std::size_t>(made.first_words) * count);
  made.second.resize(static_cast<std::size_t>(made.second_words) * count);
  std::vector<std::int32_t> sentence(static_cast<std::size_t>(words));
  for (std::size_t s = 0; s < count; ++s) {
    const int topic = draws.below(kTopics);
    for (std::int32_t& word : sentence)
      word = draws.unit() < kOfTopic ? topic * kWordsOfTopic + draws.below(kWordsOfTopic)
                                     : draws.below(kWords);
    for (std::size_t i = 0; i < sentence.size(); ++i) made.first[i * count + s] = sentence[i];
    draws.shuffle(sentence);
    for (std::size_t i = 0; i + 1 < sentence.size(); ++i)
      made.second[i * count + s] = translations_[static_cast<std::size_t>(sentence[i])];
  }
  return made;
}

}  // namespace embedder
