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

/// What `call` throws; Code::ok if it throws nothing.
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
