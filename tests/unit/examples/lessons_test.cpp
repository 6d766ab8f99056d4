// The corpora that the translator and the sentence embedder learn from, and where lookups run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "lessons/training.hpp"
#include "sentence_embedder/lesson.hpp"
#include "translator/lesson.hpp"

namespace {

using embedder::Sentences;
using translator::Corpus;

constexpr int kSteps = 200;

TEST(Corpus, SentencesOfABatchHaveOneLengthAndThoseOfStepsHaveMany) {
  const Corpus corpus(1);
  std::set<int> lengths;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const translator::Pairs pairs = corpus.draw(4, 0, step);
    ASSERT_EQ(pairs.source.ids.size(), 4U * static_cast<std::size_t>(pairs.source.words));
    ASSERT_EQ(pairs.target.ids.size(), 4U * static_cast<std::size_t>(pairs.target.words));
    lengths.insert(pairs.source.words);
  }
  EXPECT_EQ(lengths, (std::set<int>{5, 6, 8, 9, 10}));
}

TEST(Corpus, WordsAreOfTheVocabularyAndEndMarksAreLast) {
  const Corpus corpus(2);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const translator::Pairs pairs = corpus.draw(3, 1, step);
    for (const std::int32_t word : pairs.source.ids)
      ASSERT_TRUE(word >= 0 && word < Corpus::kSourceWords);
    const std::size_t last = pairs.target.ids.size() - 3;
    for (std::size_t i = 0; i < pairs.target.ids.size(); ++i) {
      ASSERT_TRUE(pairs.target.ids[i] > Corpus::kBegin &&
                  pairs.target.ids[i] < Corpus::kTargetWords);
      ASSERT_EQ(pairs.target.ids[i] == Corpus::kEnd, i >= last);
    }
  }
}

TEST(Corpus, ATranslationFollowsFromTheSentence) {
  const Corpus corpus(3);
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> seen;
  for (std::uint64_t step = 0; step < 20000; ++step) {
    const translator::Pairs pairs = corpus.draw(1, 0, step);
    const auto [at, is_new] = seen.try_emplace(pairs.source.ids, pairs.target.ids);
    ASSERT_EQ(at->second, pairs.target.ids);
  }
}

TEST(Corpus, IsAFunctionOfSeedWorkerAndStep) {
  const auto words = [](std::uint64_t seed, int worker, std::uint64_t step) {
    return Corpus(seed).draw(8, worker, step).source.ids;
  };
  EXPECT_EQ(words(1, 2, 3), words(1, 2, 3));
  EXPECT_NE(words(1, 2, 3), words(2, 2, 3));
  EXPECT_NE(words(1, 2, 3), words(1, 3, 3));
  EXPECT_NE(words(1, 2, 3), words(1, 2, 4));
}

TEST(Sentences, TheSecondLeavesOneWordOut) {
  const Sentences sentences(1);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const embedder::Pairs pairs = sentences.draw(5, 0, step);
    ASSERT_EQ(pairs.second_words, pairs.first_words - 1);
    ASSERT_EQ(pairs.first.size(), 5U * static_cast<std::size_t>(pairs.first_words));
    ASSERT_EQ(pairs.second.size(), 5U * static_cast<std::size_t>(pairs.second_words));
    for (const std::int32_t word : pairs.second) ASSERT_TRUE(word >= 0 && word < Sentences::kWords);
  }
}

TEST(Lessons, LookupsRunWhereTheirTablesAre) {
  const translator::TranslatorLesson lesson(translator::translator_defaults());
  const weft::dataflow::Graph graph = lessons::graph_of(lesson, 2);
  const auto rank_of = [&](const char* name) {
    return graph.node(graph.find(name)).placement.rank;
  };
  std::size_t lookups = 0;
  for (const auto& node : graph.nodes()) {
    const bool is_lookup = node.definition->name == "Gather";
    if (!is_lookup && node.definition->name != "weft.GatherGrad") continue;
    const auto table = node.inputs[is_lookup ? 0 : 2].node;
    EXPECT_EQ(node.placement.rank, graph.node(table).placement.rank) << node.name;
    ++lookups;
  }
  EXPECT_EQ(lookups, 8U);  // two tables, two workers, forwards and backwards
  EXPECT_EQ(rank_of("source@1"), 1);
}

TEST(Lessons, TensorsOfASentencesLengthHaveDynamicEdges) {
  const embedder::EmbedderLesson lesson(embedder::embedder_defaults());
  const auto plan = weft::dataflow::partition(lessons::graph_of(lesson, 2), {.ranks = 2});
  const auto dynamic = std::ranges::count_if(
      plan.edges, [](const auto& edge) { return edge.kind == weft::dataflow::EdgeKind::dynamic; });
  EXPECT_GT(dynamic, 0);
  EXPECT_LT(static_cast<std::size_t>(dynamic), plan.edges.size());
}

}  // namespace
