#include "runtime/dataflow/execute/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/fail.hpp"
#include "weft/collective.hpp"

namespace weft::dataflow {
namespace {

struct Word {
  std::int64_t digest = 0;
  std::int64_t has_problem = 0;
  std::int64_t bytes = 0;  ///< of the text that this rank can tell the others
};
constexpr std::int64_t kWords = sizeof(Word) / sizeof(std::int64_t);

std::vector<Word> gather_words(World& world, Collectives& group, const Word& own,
                               Deadline deadline) {
  const Tensor in = world.allocate(DType::i64, {kWords});
  const Tensor out = world.allocate(DType::i64, {kWords * world.size()});
  std::memcpy(in.data(), &own, sizeof own);
  group.run(all_gather(in, out), deadline).or_throw();
  std::vector<Word> words(static_cast<std::size_t>(world.size()));
  std::memcpy(words.data(), out.data(), out.bytes());
  return words;
}

std::vector<std::string> gather_texts(World& world, Collectives& group,
                                      const std::vector<Word>& words, const std::string& own,
                                      Deadline deadline) {
  std::vector<std::int64_t> counts;
  std::int64_t all = 0;
  for (const Word& word : words) {
    counts.push_back(word.bytes);
    all += word.bytes;
  }
  const Tensor in = world.allocate(DType::u8, {static_cast<std::int64_t>(own.size())});
  const Tensor out = world.allocate(DType::u8, {all});
  std::memcpy(in.data(), own.data(), own.size());
  group.run(all_gather(in, out, counts), deadline).or_throw();
  std::vector<std::string> texts;
  const auto* at = reinterpret_cast<const char*>(out.data());
  for (const Word& word : words) {
    texts.emplace_back(at, static_cast<std::size_t>(word.bytes));
    at += word.bytes;
  }
  return texts;
}

}  // namespace

void agree(World& world, const Graph& graph, const Status& problem, Deadline deadline) {
  if (world.size() == 1) return problem.or_throw();
  Collectives group = Collectives::open(world, deadline);
  const std::string text = problem.ok() ? graph.text() : problem.detail().message;
  const Word own{static_cast<std::int64_t>(graph.digest()), problem.ok() ? 0 : 1,
                 static_cast<std::int64_t>(text.size())};
  const std::vector<Word> words = gather_words(world, group, own, deadline);
  const auto first = [&](auto is_it) {
    const auto found = std::find_if(words.begin(), words.end(), is_it);
    return found == words.end() ? -1 : static_cast<int>(found - words.begin());
  };
  const int other = first([&](const Word& word) { return word.digest != own.digest; });
  const int troubled = first([](const Word& word) { return word.has_problem != 0; });
  if (other < 0 && troubled < 0) return;
  const std::vector<std::string> texts = gather_texts(world, group, words, text, deadline);
  problem.or_throw();
  if (troubled >= 0) {
    ErrorDetail detail = error_detail(
        Code::bad_argument, "executor",
        fmt::format("rank {}: {}", troubled, texts[static_cast<std::size_t>(troubled)]),
        "all ranks start together or not at all");
    detail.rank = world.rank();
    detail.peer = troubled;
    throw Error(std::move(detail));
  }
  compare(graph, world.rank(), texts[static_cast<std::size_t>(other)], other);
}

}  // namespace weft::dataflow
