// The protocol between an experiment's driver and a job that trains: for weft and for its peers.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bench {

/// The first word of such a run's command line.
inline constexpr std::string_view kTrain = "--train";

/// Ways of the edges between ranks.
inline constexpr std::string_view kViewsWay = "views";
inline constexpr std::string_view kSlotsWay = "slots";
inline constexpr std::string_view kRendezvousWay = "rendezvous";
inline constexpr std::string_view kCopiedWay = "copied";  ///< slots, the analysis is off
inline constexpr std::string_view kTracedWay = "traced";  ///< slots, memory found by tracing
inline constexpr std::string_view kRegisteredWay = "registered";  ///< slots, registered one by one
inline constexpr std::string_view kRpcWay = "rpc";
inline constexpr std::string_view kGrpcWay = "grpc";
inline constexpr std::array kWays{kViewsWay,  kSlotsWay,      kRendezvousWay, kCopiedWay,
                                  kTracedWay, kRegisteredWay, kRpcWay,        kGrpcWay};

/// Forms of computation: sleeps of the paper's times, or multiplications.
inline constexpr std::string_view kReplayed = "replayed";
inline constexpr std::string_view kReal = "real";

struct TrainingOptions {
  std::string model{};
  std::vector<std::size_t> batches{1};
  std::vector<std::string> ways{};  ///< one after the other
  int ranks = 2;
  std::string compute{kReplayed};
  std::chrono::milliseconds budget{1000};  ///< time to measure a row in
  bool check = false;                      ///< compares the parameters with what they must be
};

/// The options as command-line words of a run; parse_training() reads them.
std::vector<std::string> arguments(const TrainingOptions& options);

/// Parses a run's command line. Prints to stderr and exits on a bad one.
TrainingOptions parse_training(int argc, char** argv);

/// True if a command line is that of such a run.
bool is_training(int argc, char** argv);

}  // namespace weft::bench
