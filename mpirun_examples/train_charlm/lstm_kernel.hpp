// The builds of the LSTM among which make_lstm() chooses.
#pragma once

#include "lstm.hpp"

namespace charlm {

namespace baseline {
std::unique_ptr<Lstm> make_lstm(const LstmSizes& sizes, int sequences, int length);
}
namespace avx2 {
std::unique_ptr<Lstm> make_lstm(const LstmSizes& sizes, int sequences, int length);
}

}  // namespace charlm
