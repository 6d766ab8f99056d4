#include "tests/cuda/driver/environment.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/cuda/driver/machine.hpp"

namespace weft::stand_in {
namespace {

[[noreturn]] void reject(const std::string& word) {
  std::fprintf(stderr, "stand-in driver: WEFT_TEST_CUDA has \"%s\", which is no option\n",
               word.c_str());
  std::_Exit(kComplained);
}

void judge_at_exit() {
  const std::lock_guard lock(machine().mutex);
  const auto left = machine().leftovers();
  for (const auto& complaint : machine().complaints)
    std::fprintf(stderr, "stand-in driver: complaint: %s\n", complaint.c_str());
  for (const auto& object : left)
    std::fprintf(stderr, "stand-in driver: left over: %s\n", object.c_str());
  if (machine().complaints.empty() && left.empty()) return;
  std::fflush(nullptr);
  std::_Exit(kComplained);
}

void take_number(Options& options, const std::string& name, long number, const std::string& word) {
  if (name == "gpus")
    options.gpus.resize(static_cast<std::size_t>(number));
  else if (name == "seed")
    options.seed = static_cast<std::uint64_t>(number);
  else if (name == "delay_us")
    options.delay = std::chrono::microseconds(number);
  else if (name == "idle_ms")
    options.idle = std::chrono::milliseconds(number);
  else if (name == "version")
    options.driver_version = static_cast<int>(number);
  else
    reject(word);
}

/// As if the launcher had set CUDA_VISIBLE_DEVICES, with another GPU for each rank of the host.
void see_one_gpu(Options& options) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  options.first_gpu = rank == nullptr ? 0 : std::atoi(rank);
  options.gpus.resize(1);
}

}  // namespace

Options options_of_environment() {
  Options options;
  const char* text = std::getenv("WEFT_TEST_CUDA");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (word == "lazy") {
      options.pace = Pace::lazy;
    } else if (word == "no_peers") {
      options.peer_access = false;
    } else if (word.rfind("refuse=", 0) == 0) {
      options.refused = word.substr(equals + 1);
    } else if (word == "lossy") {
      options.peer_writes_lost = true;
    } else if (word == "mps") {
      options.mps = true;
    } else if (word == "apart") {
      see_one_gpu(options);
    } else if (word == "strict") {
      std::atexit(judge_at_exit);
    } else if (equals != std::string::npos) {
      char* end = nullptr;
      const long number = std::strtol(word.c_str() + equals + 1, &end, 10);
      if (*end != '\0' || end == word.c_str() + equals + 1 || number < 0) reject(word);
      take_number(options, word.substr(0, equals), number, word);
    } else {
      reject(word);
    }
  }
  return options;
}

}  // namespace weft::stand_in
