// Pairs of sentences that mean the same in two languages, generated.
#pragma once

#include <cstdint>
#include <vector>

namespace embedder {

/// A batch: [i * sentences + s] is word i of sentence s.
struct Pairs {
  int first_words = 0;
  std::vector<std::int32_t> first;
  int second_words = 0;
  std::vector<std::int32_t> second;
};

/// A sentence is about one of a few topics, whose words it uses more often than others. The second
/// one says the same in other words and another order, and leaves one word out. Thread-safety:
/// reading from several threads is allowed.
class Sentences {
 public:
  static constexpr int kTopics = 40;
  static constexpr int kWordsOfTopic = 20;
  static constexpr int kWords = kTopics * kWordsOfTopic;  ///< of each language

  explicit Sentences(std::uint64_t seed);
  /// The pairs of a worker's step, a function of seed, worker and step: always new ones. The first
  /// sentences of a batch have 5 to 10 words, all as many.
  Pairs draw(int sentences, int worker, std::uint64_t step) const;

 private:
  std::uint64_t seed_;
  std::vector<std::int32_t> translations_;
};

}  // namespace embedder
