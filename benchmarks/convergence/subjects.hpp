// The three trainings of the paper's figure 9, as lessons of weft's examples.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lessons/lesson.hpp"

namespace weft::bench {

struct Subject {
  std::string_view name;
  std::string_view measure;          ///< that is shown: "perplexity" or "loss"
  double target;                     ///< of the measure
  int steps;                         ///< that reach the target with some to spare
  std::string_view paper;            ///< its figures, for people
  double paper_gain;                 ///< its time by gRPC.TCP, by that of RDMA
  std::string_view paper_over_rdma;  ///< the same over gRPC.RDMA; empty: it had no result
  std::unique_ptr<lessons::Lesson> (*make)();
};

std::span<const Subject> subjects();
/// Throws std::out_of_range, with the names that there are.
const Subject& subject_of(std::string_view name);
/// The measure of a loss in nats.
double measured(const Subject& subject, double loss);

}  // namespace weft::bench
