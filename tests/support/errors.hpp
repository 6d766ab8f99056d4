// The error that a call ended with, and what its text says.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <string>

#include "weft/error.hpp"

namespace weft {

/// How GoogleTest prints a code.
inline void PrintTo(Code code, std::ostream* out) { *out << name(code); }

}  // namespace weft

namespace weft::tests {

/// The error that `call` threw; code ok if it threw none.
template <typename Call>
ErrorDetail thrown_by(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.detail();
  }
  ErrorDetail none;
  none.code = Code::ok;
  return none;
}

/// The text of the error that `call` throws, which must have this code; "(accepted)" if it throws
/// none.
template <typename Call>
std::string refusal_of(Code code, Call&& call) {
  const ErrorDetail detail = thrown_by(call);
  if (detail.code == Code::ok) return "(accepted)";
  EXPECT_EQ(detail.code, code) << detail.text();
  return detail.text();
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Whether an error has this code and says all these words.
inline testing::AssertionResult tells(const ErrorDetail& detail, Code code,
                                      std::initializer_list<std::string> words) {
  const std::string text = detail.text();
  if (detail.code != code)
    return testing::AssertionFailure()
           << name(detail.code) << ", not " << name(code) << ": " << text;
  for (const std::string& word : words)
    if (!contains(text, word))
      return testing::AssertionFailure() << "no '" << word << "' in: " << text;
  return testing::AssertionSuccess() << text;
}
inline testing::AssertionResult tells(const Status& status, Code code,
                                      std::initializer_list<std::string> words) {
  if (status.ok()) return testing::AssertionFailure() << "ok, not " << name(code);
  return tells(status.detail(), code, words);
}

}  // namespace weft::tests
