// Generates text with the newest parameters of a running train_charlm, from outside its job:
//   export WEFT_SUBSCRIBE_ADDR=./charlm.addr WEFT_SUBSCRIBE_TOKEN_FILE=subscribers.token
//   mpirun -n 2 train_charlm --text LICENSE --publish 50 &
//   rollout_charlm --text LICENSE
// Any number of these processes may come and go; each prints which version it used.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "lstm.hpp"
#include "options.hpp"
#include "sample.hpp"
#include "text.hpp"
#include "weft/publication.hpp"

namespace {

namespace ps = weft::pslib;
using charlm::Text;

// The last version has learned if its loss is below this share of the unigram entropy.
constexpr double kLearnedShare = 0.8;
// The number of characters of the text on which a version is judged.
constexpr std::size_t kJudged = 2000;

struct Options {
  std::string text;
  int characters = 200;
  std::uint64_t seed = 1;
  bool judges = true;
};

charlm::LstmSizes sizes_of(const ps::Reader& reader, const Text& text) {
  const auto& shape = reader.specs().at(0).shape;
  const auto vocabulary = static_cast<std::int64_t>(text.vocabulary.size());
  if (shape[0] != vocabulary)
    throw charlm::UsageError(
        fmt::format("{} has {} different characters, the trainer's text {}: name the same text",
                    text.file, vocabulary, shape[0]));
  return {static_cast<int>(vocabulary), static_cast<int>(shape[1]),
          static_cast<int>(reader.specs().at(3).shape[0] / 4)};
}

charlm::LstmTensors<const float> bind(const ps::Reader& reader) {
  const auto floats = [&](const char* name) { return reader.tensor(name).as<float>(); };
  return {floats("embedding"), floats("input_weights"),  floats("hidden_weights"),
          floats("gate_bias"), floats("output_weights"), floats("output_bias")};
}

// The mean nats per character over the beginning of the text.
double loss_of(const charlm::LstmSizes& sizes, const charlm::LstmTensors<const float>& parameters,
               const Text& text) {
  const auto lstm = charlm::make_lstm(sizes, 1, 1);
  const std::size_t count = std::min(kJudged, text.tokens.size() - 1);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto logits = lstm->advance(parameters, text.tokens[i]);
    const double top = *std::ranges::max_element(logits);
    double all = 0.0;
    for (const float logit : logits) all += std::exp(logit - top);
    sum += top + std::log(all) - logits[static_cast<std::size_t>(text.tokens[i + 1])];
  }
  return sum / static_cast<double>(count);
}

int run(const Options& options) {
  const Text text = charlm::read_text(options.text, 2);
  ps::Reader reader = ps::Reader::join("charlm");
  const auto sizes = sizes_of(reader, text);
  const double entropy = text.unigram_entropy();
  double loss = 0.0;
  std::string written;
  for (;;) {
    const auto began = std::chrono::steady_clock::now();
    const weft::Status status = reader.pull_newer();
    if (status.code() == weft::Code::peer_left) break;
    status.or_throw();
    const std::chrono::duration<double, std::milli> waited =
        std::chrono::steady_clock::now() - began;
    const auto parameters = bind(reader);
    const auto lstm = charlm::make_lstm(sizes, 1, 1);
    written = charlm::sample(*lstm, parameters, text, options.characters, options.seed);
    loss = loss_of(sizes, parameters, text);
    fmt::print("version {:>3} (step {:>4}, there after {:.0f} ms): {:.4f} nats per character\n",
               reader.version(), reader.step(), waited.count(), loss);
    std::fflush(stdout);
  }
  const ps::ReaderStatistics taken = reader.statistics();
  const bool learned = !options.judges || (reader.version() > 0 && loss < kLearnedShare * entropy);
  fmt::print("\nby version {}\n------\n{}\n------\n", reader.version(), written);
  fmt::print("the trainer left; {} versions taken, {:.1f} kB\n",
             taken.full_taken + taken.deltas_taken,
             static_cast<double>(taken.bytes_received) * 1e-3);
  fmt::print("loss {:.4f} nats per character, {:.0f} % of the unigram entropy {:.4f}{}\n", loss,
             100 * loss / entropy, entropy, learned ? "" : ": not learned");
  return learned ? charlm::kLearned : charlm::kDidNotLearn;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Generates text with the newest parameters of a running train_charlm --publish.",
               "rollout_charlm");
  app.footer(
      "Exit codes: 0 success, 1 the last version had not learned, 2 bad input, 3 the trainer "
      "failed.");
  app.add_option("--text", options.text, "the trainer's text")->required();
  app.add_option("--characters", options.characters, "characters to generate with each version")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the generated text")->capture_default_str();
  app.add_flag("!--do-not-judge", options.judges, "exit with 0 whatever the loss");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return charlm::kLearned;
  } catch (const CLI::ParseError& error) {
    throw charlm::UsageError(fmt::format("{}; --help lists the options", error.what()));
  }
  return run(options);
} catch (const charlm::UsageError& error) {
  fmt::print(stderr, "rollout_charlm: {}\n", error.what());
  return charlm::kBadInput;
} catch (const charlm::TextError& error) {
  fmt::print(stderr, "rollout_charlm: {}\n", error.what());
  return charlm::kBadInput;
} catch (const std::exception& error) {
  fmt::print(stderr, "rollout_charlm: {}\n", error.what());
  return charlm::kJobFailed;
}
