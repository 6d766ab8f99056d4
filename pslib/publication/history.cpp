#include "pslib/publication/history.hpp"

#include <utility>

namespace weft::pslib {

void History::add(RowRuns changed) {
  ++newest_;
  runs_ += changed.size();
  changes_.push_back(std::move(changed));
  while (changes_.size() > most_versions_ || runs_ > most_runs_) {
    runs_ -= changes_.front().size();
    changes_.pop_front();
  }
}

std::optional<RowRuns> History::since(std::uint64_t version) const {
  // Nobody has version 0: it stands for nothing at all.
  if (version == 0 || version > newest_ || newest_ - version > changes_.size()) return std::nullopt;
  RowRuns all;
  for (auto at = changes_.end() - static_cast<std::ptrdiff_t>(newest_ - version);
       at != changes_.end(); ++at)
    all = unite(all, *at);
  return all;
}

}  // namespace weft::pslib
