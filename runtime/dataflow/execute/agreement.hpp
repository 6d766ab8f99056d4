// The agreement of all ranks before step 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/world/services.hpp"
#include "weft/collective.hpp"
#include "weft/executor.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// Every rank makes one and calls the same of its members in the same order. They throw the errors
/// of collectives too, which name the executor.
class Agreement {
 public:
  Agreement(World& world, std::string name, Deadline deadline);

  struct Place {
    std::int64_t host = 0;  ///< the lowest rank that shares memory with it, itself perhaps
    ArenaRoom room{};
  };
  /// Every rank's, by rank. The first call after construction.
  std::vector<Place> places();
  /// Returns if all ranks have the same graph, name and way, and none has a problem. Throws
  /// `problem` if it is not ok, an Error with the code and text of another rank's problem,
  /// Error(mismatch) that names the first node that differs, or the rank whose name or way differs.
  void settle(const Graph& graph, EdgeWay way, const Status& problem);

 private:
  struct Word {
    std::int64_t digest = 0;
    std::int64_t name = 0;     ///< its hash
    std::int64_t problem = 0;  ///< its code; 0: none
    std::int64_t bytes = 0;    ///< of the text that this rank can tell the others
    std::int64_t way = 0;
  };

  /// Runs `call`, whose errors become those of the executor's start.
  template <typename Call>
  auto as_start(const Call& call);
  /// Every rank's, by rank.
  template <typename Own>
  std::vector<Own> gather(const Own& own);
  std::vector<std::string> gather_texts(const std::vector<Word>& words, const std::string& own);
  [[noreturn]] void blame(Code code, int rank, const std::string& text, const char* hint) const;

  World& world_;
  const std::string name_;
  const Deadline deadline_;
  std::optional<Collectives> group_;  ///< none in a world of one rank
};

}  // namespace weft::dataflow
