#include "runtime/dataflow/execute/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"

namespace weft::dataflow {

Agreement::Agreement(World& world, Deadline deadline) : world_(world), deadline_(deadline) {
  if (world.size() > 1) group_ = Collectives::open(world, deadline);
}

template <typename Own>
std::vector<Own> Agreement::gather(const Own& own) {
  if (!group_) return {own};
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Own));
  const Tensor in = world_.allocate(DType::u8, {kBytes});
  const Tensor out = world_.allocate(DType::u8, {kBytes * world_.size()});
  std::memcpy(in.data(), &own, sizeof own);
  group_->run(all_gather(in, out), deadline_).or_throw();
  std::vector<Own> all(static_cast<std::size_t>(world_.size()));
  std::memcpy(all.data(), out.data(), out.bytes());
  return all;
}

std::vector<int> Agreement::hosts() {
  std::int64_t lowest = world_.rank();
  for (const PathReport& path : world_.report().paths)
    if (path.fabric == "shm") lowest = std::min<std::int64_t>(lowest, path.peer);
  std::vector<int> hosts;
  for (const std::int64_t host : gather(lowest)) hosts.push_back(static_cast<int>(host));
  return hosts;
}

std::vector<std::string> Agreement::gather_texts(const std::vector<Word>& words,
                                                 const std::string& own) {
  std::vector<std::int64_t> counts;
  std::int64_t all = 0;
  for (const Word& word : words) {
    counts.push_back(word.bytes);
    all += word.bytes;
  }
  const Tensor in = world_.allocate(DType::u8, {static_cast<std::int64_t>(own.size())});
  const Tensor out = world_.allocate(DType::u8, {all});
  std::memcpy(in.data(), own.data(), own.size());
  group_->run(all_gather(in, out, counts), deadline_).or_throw();
  std::vector<std::string> texts;
  const auto* at = reinterpret_cast<const char*>(out.data());
  for (const Word& word : words) {
    texts.emplace_back(at, static_cast<std::size_t>(word.bytes));
    at += word.bytes;
  }
  return texts;
}

void Agreement::blame(Code code, int rank, const std::string& text, const char* hint) const {
  ErrorDetail detail = error_detail(code, "executor", fmt::format("rank {}: {}", rank, text), hint);
  detail.rank = world_.rank();
  detail.peer = rank;
  throw Error(std::move(detail));
}

void Agreement::settle(const Graph& graph, EdgeWay way, const Status& problem) {
  if (!group_) return problem.or_throw();
  const std::string text = problem.ok() ? graph.text() : problem.detail().message;
  const Word own{static_cast<std::int64_t>(graph.digest()), problem.ok() ? 0 : 1,
                 static_cast<std::int64_t>(text.size()), static_cast<std::int64_t>(way)};
  const std::vector<Word> words = gather(own);
  const auto first = [&](auto is_it) {
    const auto found = std::find_if(words.begin(), words.end(), is_it);
    return found == words.end() ? -1 : static_cast<int>(found - words.begin());
  };
  const int other = first([&](const Word& word) { return word.digest != own.digest; });
  const int troubled = first([](const Word& word) { return word.has_problem != 0; });
  const int another_way = first([&](const Word& word) { return word.way != own.way; });
  if (other < 0 && troubled < 0 && another_way < 0) return;
  const std::vector<std::string> texts = gather_texts(words, text);
  problem.or_throw();
  if (troubled >= 0)
    blame(Code::bad_argument, troubled, texts[static_cast<std::size_t>(troubled)],
          "all ranks start together or not at all");
  if (other >= 0) compare(graph, world_.rank(), texts[static_cast<std::size_t>(other)], other);
  blame(Code::mismatch, another_way, "its executor has another ExecutorOptions::way",
        "give all ranks the same");
}

}  // namespace weft::dataflow
