// Trains a character-level language model, data-parallel over the ranks of the job:
//   mpirun -n 4 train_charlm --text LICENSE
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "options.hpp"
#include "text.hpp"
#include "training.hpp"
#include "weft/world.hpp"

namespace {

int fail(int exit_code, const std::string& what) {
  fmt::print(stderr, "train_charlm: {}\n", what);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = charlm::Options::parse(argc, argv);
  if (!options) return charlm::kLearned;
  // Before joining: if the text can't be used, every rank ends at once and none waits.
  const charlm::Text text =
      charlm::read_text(options->text, static_cast<std::size_t>(options->length) + 1);

  weft::World world = weft::World::join();
  return charlm::train(world, *options, text);
} catch (const charlm::UsageError& error) {
  return fail(charlm::kBadInput, error.what());
} catch (const charlm::TextError& error) {
  return fail(charlm::kBadInput, error.what());
} catch (const weft::Error& error) {
  const int rank = error.detail().rank;
  return fail(charlm::kJobFailed, (rank < 0 ? "" : fmt::format("rank {}: ", rank)) + error.what());
} catch (const std::exception& error) {
  return fail(charlm::kJobFailed, error.what());
}
