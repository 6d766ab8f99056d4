#include "pslib/publication/history.hpp"

#include <utility>

namespace weft::pslib {

void History::add(RowRuns changed) {
  ++newest_;
  runs_ += changed.size();
  changes_.push_back(std::make_shared<const RowRuns>(std::move(changed)));
  while (changes_.size() > most_versions_ || runs_ > most_runs_) {
    runs_ -= changes_.front()->size();
    changes_.pop_front();
  }
}

std::optional<History::Changes> History::since(std::uint64_t version) const {
  // Version 0 means that the subscriber has nothing.
  if (version == 0 || version > newest_ || newest_ - version > changes_.size()) return std::nullopt;
  return Changes(changes_.end() - static_cast<std::ptrdiff_t>(newest_ - version), changes_.end());
}

RowRuns History::united(const Changes& changes) {
  RowRuns all;
  for (const auto& of_version : changes) all = unite(all, *of_version);
  return all;
}

}  // namespace weft::pslib
