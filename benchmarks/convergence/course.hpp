// A course: one training by one way, in a rank of its job.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/convergence/subjects.hpp"
#include "weft/executor.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// The ways of an edge between ranks, by name. All but the last are weft's.
inline constexpr std::string_view kByViews = "views";  ///< zero-copy: where the ranks share memory
inline constexpr std::string_view kBySlots =
    "slots";  ///< zero-copy: a put into the receiver's slot
inline constexpr std::string_view kByCopies = "copies";  ///< slots, analysis off: RDMA.cp
inline constexpr std::string_view kByRpcEdges = "rpc";   ///< over weft's messages: gRPC.RDMA
inline constexpr std::string_view kByGrpc = "grpc";      ///< gRPC.TCP
inline constexpr std::array kCourseWays{kByViews, kBySlots, kByCopies, kByRpcEdges, kByGrpc};

inline constexpr int kCourseRanks = 2;

/// Seconds since the first step began, at the end of each step, and the step's loss: the mean over
/// all ranks, in nats.
struct Course {
  std::vector<double> seconds;
  std::vector<double> losses;
};

using MakeExecutor =
    std::function<dataflow::Executor(World&, const dataflow::Graph&, dataflow::Kernels kernels)>;

/// Trains for `steps`. On other ranks than 0 the losses are their own. Throws Error.
Course train(World& world, const Subject& subject, int steps, const MakeExecutor& make_executor);
/// Executors by one of weft's ways. Throws std::out_of_range.
MakeExecutor executor_by(std::string_view way);

/// As a line of JSON, which course_in() finds in a run's output.
std::string to_line(const Course& course);
/// Throws std::runtime_error if there is none.
Course course_in(const std::string& output);

}  // namespace weft::bench
