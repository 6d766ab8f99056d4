// A lesson over the ranks of a job, step by step.
#pragma once

#include <string>

#include "lessons/lesson.hpp"

namespace lessons {

/// Each rank is a worker, and the variables are spread over all ranks. A table of embeddings stays
/// where it is: its lookups, and their gradients, run there, and only the rows of a step's words
/// move. Rank 0 fetches the mean of all losses as "job's loss".
weft::dataflow::Graph graph_of(const Lesson& lesson, int ranks);

/// This rank's share. Executor and lesson must outlive it.
class Training {
 public:
  /// Gives this rank's variables their first values. `executor` is of graph_of(lesson).
  Training(weft::dataflow::Executor& executor, Lesson& lesson, int rank);
  /// Runs a step. Returns the mean of all losses on rank 0, and this rank's loss elsewhere. Throws
  /// weft::Error.
  double step();

 private:
  std::string own(const std::string& name) const;

  weft::dataflow::Executor& executor_;
  Lesson& lesson_;
  const int rank_;
  weft::dataflow::Tensors kept_;  ///< feeds of static shape
};

}  // namespace lessons
