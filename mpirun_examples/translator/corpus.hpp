// Sentences of a small language and their translations, generated.
#pragma once

#include <cstdint>
#include <vector>

namespace translator {

/// Sentences of one length. Words are numbers; [i * sentences + s] is word i of sentence s.
struct Sentences {
  int words = 0;
  std::vector<std::int32_t> ids;
};

/// A batch: all its sentences are as long as each other, and so are their translations.
struct Pairs {
  Sentences source;
  Sentences target;  ///< ends with Corpus::kEnd
};

/// The source has determiners, adjectives before their noun, and the verb in the middle: 5 to 10
/// words. In the translation adjectives follow their noun, both and the determiner agree in gender,
/// the verb comes last, and a particle marks a second object. Frequent words come first in their
/// class. Thread-safety: reading from several threads is allowed.
class Corpus {
 public:
  static constexpr std::int32_t kBegin = 0;  ///< before the first word of a translation
  static constexpr std::int32_t kEnd = 1;
  static constexpr int kSourceWords = 3 + 240 + 80 + 120 + 8;
  static constexpr int kTargetWords = 3 + 2 * 3 + 240 + 2 * 80 + 120 + 8;

  /// The languages are a function of `seed`.
  explicit Corpus(std::uint64_t seed);
  /// The sentences of a worker's step, a function of seed, worker and step: always new ones.
  Pairs draw(int sentences, int worker, std::uint64_t step) const;

 private:
  std::uint64_t seed_;
  std::vector<std::int32_t> nouns_, adjectives_, verbs_, prepositions_;  ///< translations, by word
  std::vector<bool> second_gender_;                                      ///< of nouns
};

}  // namespace translator
