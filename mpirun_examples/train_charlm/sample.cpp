#include "sample.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "random.hpp"

namespace charlm {
namespace {

constexpr double kTemperature = 0.7;

bool is_control(char32_t code) {
  return (code < 0x20 && code != U'\n' && code != U'\t') || (code >= 0x7F && code < 0xA0);
}

// `weights` is scratch memory.
std::int32_t draw(std::span<const float> logits, std::vector<double>& weights, Random& random) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0.0;
  weights.clear();
  for (const float logit : logits) {
    weights.push_back(std::exp((logit - top) / kTemperature));
    sum += weights.back();
  }
  double left = random.unit() * sum;
  std::size_t at = 0;
  while (at + 1 < weights.size() && left >= weights[at]) left -= weights[at++];
  return static_cast<std::int32_t>(at);
}

}  // namespace

std::string sample(Lstm& lstm, const LstmTensors<const float>& parameters, const Text& text,
                   int characters, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> weights;
  std::string out;
  const auto line_feed = std::ranges::lower_bound(text.vocabulary, U'\n');
  const bool has_line_feed = line_feed != text.vocabulary.end() && *line_feed == U'\n';
  std::int32_t token = has_line_feed
                           ? static_cast<std::int32_t>(line_feed - text.vocabulary.begin())
                           : text.tokens.front();
  for (int i = 0; i < characters; ++i) {
    token = draw(lstm.advance(parameters, token), weights, random);
    const char32_t code = text.vocabulary[static_cast<std::size_t>(token)];
    append_utf8(out, is_control(code) ? U'?' : code);
  }
  return out;
}

}  // namespace charlm
