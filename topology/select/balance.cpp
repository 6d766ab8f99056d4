#include "topology/select/balance.hpp"

#include <algorithm>
#include <deque>
#include <tuple>

#include "topology/model/model.hpp"

namespace weft::topology {
namespace {

class Balance {
 public:
  Balance(const std::vector<Wish>& wishes, const std::vector<int>& card)
      : wishes_(wishes), card_(card), takers_(card.size()), card_load_(card.size()) {
    result_.nic.assign(wishes.size(), kNone);
  }

  Assignment run() {
    for (std::size_t wish = 0; wish < wishes_.size(); ++wish) take_least(wish);
    while (lower_one()) {
    }
    return std::move(result_);
  }

 private:
  int load(int nic) const {
    return static_cast<int>(takers_[static_cast<std::size_t>(nic)].size());
  }
  int& card_load(int nic) {
    return card_load_[static_cast<std::size_t>(card_[static_cast<std::size_t>(nic)])];
  }

  void take_least(std::size_t wish) {
    const auto& nics = wishes_[wish].nics;
    result_.steps += nics.size();
    const auto least = std::min_element(nics.begin(), nics.end(), [&](int a, int b) {
      return std::tuple(load(a), card_load(a)) < std::tuple(load(b), card_load(b));
    });
    if (least != nics.end()) move(wish, *least);
  }

  void move(std::size_t wish, int nic) {
    if (const int from = result_.nic[wish]; from != kNone) {
      std::erase(takers_[static_cast<std::size_t>(from)], wish);
      --card_load(from);
    }
    result_.nic[wish] = nic;
    takers_[static_cast<std::size_t>(nic)].push_back(wish);
    ++card_load(nic);
  }

  /// Looks for a NIC that can lose one rank along a chain of ranks that each move to another of
  /// their NICs, ending at a NIC with at least two ranks less. Starts with the NIC of the highest
  /// load.
  bool lower_one() {
    std::vector<int> nics(takers_.size());
    for (std::size_t i = 0; i < nics.size(); ++i) nics[i] = static_cast<int>(i);
    std::stable_sort(nics.begin(), nics.end(), [&](int a, int b) { return load(a) > load(b); });
    return std::any_of(nics.begin(), nics.end(),
                       [&](int nic) { return load(nic) > 1 && lower(nic); });
  }

  bool lower(int start) {
    std::vector<int> by_wish(takers_.size(), kNone);  // the wish that would move to this NIC
    std::vector<bool> seen(takers_.size());
    std::deque<int> queue{start};
    seen[static_cast<std::size_t>(start)] = true;
    while (!queue.empty()) {
      const int nic = queue.front();
      queue.pop_front();
      for (const std::size_t wish : takers_[static_cast<std::size_t>(nic)])
        for (const int other : wishes_[wish].nics) {
          ++result_.steps;
          const auto at = static_cast<std::size_t>(other);
          if (seen[at]) continue;
          seen[at] = true;
          by_wish[at] = static_cast<int>(wish);
          if (load(other) + 2 <= load(start)) {
            move_along(start, other, by_wish);
            return true;
          }
          queue.push_back(other);
        }
    }
    return false;
  }

  void move_along(int start, int end, const std::vector<int>& by_wish) {
    while (end != start) {
      const auto wish = static_cast<std::size_t>(by_wish[static_cast<std::size_t>(end)]);
      const int from = result_.nic[wish];
      move(wish, end);
      end = from;
    }
  }

  const std::vector<Wish>& wishes_;
  const std::vector<int>& card_;
  std::vector<std::vector<std::size_t>> takers_;  // wishes assigned to each NIC
  std::vector<int> card_load_;
  Assignment result_;
};

}  // namespace

Assignment balance(const std::vector<Wish>& wishes, const std::vector<int>& card) {
  return Balance(wishes, card).run();
}

}  // namespace weft::topology
