// The assertions of the conformance suite: the same under GoogleTest, under mpirun and in a
// simulation.
#pragma once

#include <concepts>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/conformance/ends.hpp"
#include "tests/pattern.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

/// A requirement that did not hold. The text names the rank, the place, and the expected and actual
/// values.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A line of a body. std::source_location would do, but clang-tidy 14 does not know it.
struct Where {
  const char* file;
  unsigned line;

  static constexpr Where current(const char* file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The checks of one rank. Each throws Failed. Thread-safety: several threads may check.
class Check {
 public:
  explicit Check(World& world) : world_(&world) {}

  void operator()(bool holds, std::string_view what, const Where& where = Where::current()) const {
    if (!holds) fail(std::string(what), where);
  }

  template <typename Got, typename Expected>
  void equal(const Got& got, const Expected& expected, std::string_view what,
             const Where& where = Where::current()) const {
    if (got == expected) return;
    fail(std::string(what) + ": expected " + text(expected) + ", got " + text(got), where);
  }

  void ok(const Status& status, std::string_view what,
          const Where& where = Where::current()) const {
    if (!status.ok()) fail(std::string(what) + ": " + status.text(), where);
  }
  template <typename T>
  T ok(Result<T> result, std::string_view what, const Where& where = Where::current()) const {
    ok(result.status(), what, where);
    return std::move(result).value();
  }

  /// Requires that a call ended with `code`; returns the rest of its error.
  ErrorDetail ends(const Status& status, Code code, std::string_view what,
                   const Where& where = Where::current()) const {
    if (status.code() != code)
      fail(std::string(what) + ": expected " + std::string(name(code)) + ", got " + status.text(),
           where);
    return status.detail();
  }
  /// Requires that a control call throws an Error with `code`; returns the rest of its error.
  template <std::invocable Call>
  ErrorDetail throws(Code code, Call&& call, std::string_view what,
                     const Where& where = Where::current()) const {
    try {
      call();
    } catch (const Error& error) {
      return ends(error.status(), code, what, where);
    }
    fail(std::string(what) + ": expected " + std::string(name(code)) + ", got no error", where);
  }

  /// Requires that `tensor` is the one that was put with `pattern`.
  void holds(const Tensor& tensor, std::uint64_t pattern, std::string_view what,
             const Where& where = Where::current()) const {
    if (!conformance::holds(*world_, tensor, pattern))
      fail(std::string(what) + ": " + tensor.text() + " is not the one that was put", where);
  }

  void says(std::string_view text, std::string_view part,
            const Where& where = Where::current()) const {
    if (text.find(part) == std::string_view::npos)
      fail("expected '" + std::string(part) + "' in: " + std::string(text), where);
  }

  [[noreturn]] void fail(const std::string& what, const Where& where = Where::current()) const;

 private:
  template <typename T>
  static std::string text(const T& value) {
    if constexpr (std::same_as<T, Shape>) {
      return value.text();
    } else if constexpr (std::same_as<T, DType>) {
      return std::string(name(value));
    } else {
      std::ostringstream out;
      out << value;
      return out.str();
    }
  }

  World* world_;
};

}  // namespace weft::conformance
