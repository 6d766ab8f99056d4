// The embedder as a lesson: two GRUs, one for each language, embed sentences so that those that
// mean the same lie near each other.
#pragma once

#include "lessons/lesson.hpp"
#include "lessons/program.hpp"
#include "sentence_embedder/sentences.hpp"

namespace embedder {

/// The loss is that of finding each sentence's partner among all second sentences of the batch, in
/// nats; guessing has the logarithm of the batch's size.
class EmbedderLesson final : public lessons::Lesson {
 public:
  struct Sizes {
    int embedding = 64;
    int width = 96;
  };
  explicit EmbedderLesson(const lessons::Options& options) : EmbedderLesson(options, {}) {}
  EmbedderLesson(const lessons::Options& options, const Sizes& sizes);

  /// Feeds: "first" and "second", i32 [words, batch]; "partners", i32 [batch], which are 0, 1, ...
  weft::dataflow::Graph model() const override;
  weft::dataflow::Kernels kernels() const override;
  std::map<std::string, std::vector<float>> first_values() const override;
  weft::dataflow::Tensors feeds(int worker, std::uint64_t step,
                                const lessons::FeedMemory& memory) override;

 private:
  const lessons::Options options_;
  const Sizes sizes_;
  const Sentences sentences_;
};

lessons::Program embedder_program();
lessons::Options embedder_defaults();

}  // namespace embedder
