#include "runtime/dataflow/execute/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "base/mix64.hpp"

namespace weft::dataflow {
namespace {

/// An error as other ranks are told.
std::string text_of(const ErrorDetail& detail) {
  return detail.slot.empty() ? detail.message
                             : fmt::format("slot \"{}\": {}", detail.slot, detail.message);
}

std::uint64_t hash_of(const std::string& name) noexcept {
  std::uint64_t hash = kFnv1a;
  for (const char c : name) hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}

Code code_of(std::int64_t code) noexcept {
  const bool is_known = code > 0 && code <= static_cast<std::int64_t>(Code::partitioned);
  return is_known ? static_cast<Code>(code) : Code::system;
}

}  // namespace

template <typename Call>
auto Agreement::as_start(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = "executor";
    detail.message = fmt::format("the start of '{}': {}", name_, detail.message);
    throw Error(std::move(detail));
  }
}

Agreement::Agreement(World& world, std::string name, Deadline deadline)
    : world_(world), name_(std::move(name)), deadline_(deadline) {
  if (world.size() > 1) group_ = as_start([&] { return Collectives::open(world, deadline); });
}

template <typename Own>
std::vector<Own> Agreement::gather(const Own& own) {
  if (!group_) return {own};
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Own));
  const Tensor in = world_.allocate(DType::u8, {kBytes});
  const Tensor out = world_.allocate(DType::u8, {kBytes * world_.size()});
  std::memcpy(in.data(), &own, sizeof own);
  as_start([&] { group_->run(all_gather(in, out), deadline_).or_throw(); });
  std::vector<Own> all(static_cast<std::size_t>(world_.size()));
  std::memcpy(all.data(), out.data(), out.bytes());
  return all;
}

std::vector<Agreement::Place> Agreement::places() {
  Place own{world_.rank(), arena_room(world_)};
  for (const PathReport& path : world_.report().paths)
    if (path.fabric == "shm") own.host = std::min<std::int64_t>(own.host, path.peer);
  const Deadline until = deadline_.resolve(default_timeout(world_));
  for (;;) try {
      return gather(own);
    } catch (const Error& error) {
      // A rank had given this group up, and is about to try again.
      if (error.code() != Code::closed || until.passed()) throw;
      group_ = as_start([&] { return Collectives::open(world_, until); });
    }
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
  as_start([&] { group_->run(all_gather(in, out, counts), deadline_).or_throw(); });
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
  const std::string text = problem.ok() ? graph.text() : text_of(problem.detail());
  const Word own{
      static_cast<std::int64_t>(graph.digest()), static_cast<std::int64_t>(hash_of(name_)),
      static_cast<std::int64_t>(problem.code()),
      static_cast<std::int64_t>(name_.size() + 1 + text.size()), static_cast<std::int64_t>(way)};
  const std::vector<Word> words = gather(own);
  const auto first = [&](auto is_it) {
    const auto found = std::find_if(words.begin(), words.end(), is_it);
    return found == words.end() ? -1 : static_cast<int>(found - words.begin());
  };
  const int troubled = first([](const Word& word) { return word.problem != 0; });
  const int other_name = first([&](const Word& word) { return word.name != own.name; });
  const int other = first([&](const Word& word) { return word.digest != own.digest; });
  const int other_way = first([&](const Word& word) { return word.way != own.way; });
  if (std::max({troubled, other_name, other, other_way}) < 0) return;
  const std::vector<std::string> texts = gather_texts(words, name_ + '\n' + text);
  problem.or_throw();
  const auto of = [&](int rank) {
    const std::string& both = texts[static_cast<std::size_t>(rank)];
    const std::size_t end = both.find('\n');
    return std::pair(both.substr(0, end), both.substr(end + 1));
  };
  if (troubled >= 0)
    blame(code_of(words[static_cast<std::size_t>(troubled)].problem), troubled, of(troubled).second,
          "all ranks start together or not at all");
  if (other_name >= 0)
    blame(Code::mismatch, other_name,
          fmt::format("its executor has the name '{}', this rank's '{}'", of(other_name).first,
                      name_),
          "all ranks make the same executors in the same order");
  if (other >= 0) compare(graph, world_.rank(), of(other).second, other);
  blame(Code::mismatch, other_way, "its executor has another ExecutorOptions::way",
        "give all ranks the same");
}

}  // namespace weft::dataflow
