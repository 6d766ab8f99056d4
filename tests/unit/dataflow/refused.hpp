// The error that a call throws.
#pragma once

#include <string>

#include "weft/error.hpp"

namespace weft::dataflow {

struct Refusal {
  Code code = Code::ok;
  std::string message;

  bool names(const std::string& text) const { return message.find(text) != std::string::npos; }
};

/// The error that `call` throws; Code::ok if it throws none.
template <typename Call>
Refusal refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.detail().message};
  }
  return {};
}

}  // namespace weft::dataflow
