// Numbers that remember how they were computed: the reference for gradients.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace weft::dataflow::reference {

/// A record of additions and products, each with its derivatives.
class Tape {
 public:
  struct Step {
    int a, b;
    double da, db;
  };
  int add(int a, double da, int b = -1, double db = 0) {
    steps_.push_back({a, b, da, db});
    return static_cast<int>(steps_.size()) - 1;
  }
  std::vector<double>& adjoints() { return adjoints_; }
  void start() { adjoints_.assign(steps_.size(), 0); }
  void run_back() {
    for (std::size_t i = steps_.size(); i-- > 0;) {
      const Step& step = steps_[i];
      if (step.a >= 0) adjoints_[static_cast<std::size_t>(step.a)] += step.da * adjoints_[i];
      if (step.b >= 0) adjoints_[static_cast<std::size_t>(step.b)] += step.db * adjoints_[i];
    }
  }

 private:
  std::vector<Step> steps_;
  std::vector<double> adjoints_;
};

/// A number on a tape; one made from a double alone is a constant.
struct Var {
  double value = 0;
  int at = -1;
  Tape* tape = nullptr;

  Var() = default;
  Var(double constant) : value(constant) {}
  Var(double start, Tape& on) : value(start), at(on.add(-1, 0)), tape(&on) {}
};

inline double value_of(double x) { return x; }
inline double value_of(const Var& x) { return x.value; }

inline Var combined(double value, const Var& a, double da, const Var& b, double db) {
  Tape* tape = a.tape != nullptr ? a.tape : b.tape;
  Var result(value);
  if (tape == nullptr) return result;
  result.tape = tape;
  result.at = tape->add(a.at, da, b.at, db);
  return result;
}
inline Var operator+(const Var& a, const Var& b) { return combined(a.value + b.value, a, 1, b, 1); }
inline Var operator-(const Var& a, const Var& b) {
  return combined(a.value - b.value, a, 1, b, -1);
}
inline Var operator*(const Var& a, const Var& b) {
  return combined(a.value * b.value, a, b.value, b, a.value);
}
inline Var operator/(const Var& a, const Var& b) {
  return combined(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
inline Var& operator+=(Var& a, const Var& b) { return a = a + b; }
inline Var of_one(double value, const Var& a, double da) {
  return combined(value, a, da, Var(), 0);
}
inline Var exp(const Var& x) { return of_one(std::exp(x.value), x, std::exp(x.value)); }
inline Var log(const Var& x) { return of_one(std::log(x.value), x, 1 / x.value); }
inline Var sqrt(const Var& x) { return of_one(std::sqrt(x.value), x, 0.5 / std::sqrt(x.value)); }
inline Var tanh(const Var& x) {
  const double y = std::tanh(x.value);
  return of_one(y, x, 1 - y * y);
}
using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

}  // namespace weft::dataflow::reference
