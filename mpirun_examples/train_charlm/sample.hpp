// Text written by the trained model.
#pragma once

#include <cstdint>
#include <string>

#include "lstm.hpp"
#include "text.hpp"

namespace charlm {

/// Draws `characters` code points one after the other from the model's predictions, at a
/// temperature of 0.7, and returns them as UTF-8. Starts as if at the beginning of a line. Control
/// characters other than line feed and tab become '?', so that the text can't disturb a terminal.
std::string sample(Lstm& lstm, const LstmTensors<const float>& parameters, const Text& text,
                   int characters, std::uint64_t seed);

}  // namespace charlm
