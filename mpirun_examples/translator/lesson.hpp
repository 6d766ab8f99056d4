// The translator as a lesson: an LSTM reads the sentence, another one writes its translation.
#pragma once

#include "lessons/lesson.hpp"
#include "lessons/program.hpp"
#include "translator/corpus.hpp"

namespace translator {

/// Source: Sutskever, Vinyals, Le 2014, with one layer each. The loss is the mean over all words of
/// the translations, in nats: the perplexity is its exponential.
class TranslatorLesson final : public lessons::Lesson {
 public:
  struct Sizes {
    int embedding = 64;
    int width = 128;
  };
  explicit TranslatorLesson(const lessons::Options& options) : TranslatorLesson(options, {}) {}
  TranslatorLesson(const lessons::Options& options, const Sizes& sizes);

  /// Feeds: "source", its words in reverse order, i32 [words, batch]; "before", the translation
  /// behind Corpus::kBegin, i32 [words, batch]; "targets", i32 [words x batch]. Words are as many
  /// as the step's sentences have.
  weft::dataflow::Graph model() const override;
  weft::dataflow::Kernels kernels() const override;
  std::map<std::string, std::vector<float>> first_values() const override;
  weft::dataflow::Tensors feeds(int worker, std::uint64_t step,
                                const lessons::FeedMemory& memory) override;

 private:
  const lessons::Options options_;
  const Sizes sizes_;
  const Corpus corpus_;
};

lessons::Program translator_program();
lessons::Options translator_defaults();

}  // namespace translator
