// Text written by the trained model.
#pragma once

#include <cstdint>
#include <string>

#include "lstm.hpp"
#include "text.hpp"

namespace charlm {

/// `characters` code points drawn one after the other from the model's predictions, sharpened by a
/// temperature of 0.7, as UTF-8. Control characters other than line feed and tab become '?', so
/// that the text cannot upset a terminal. Starts as if at the beginning of a line.
std::string sample(Lstm& lstm, const LstmTensors<const float>& parameters, const Text& text,
                   int characters, std::uint64_t seed);

}  // namespace charlm
