// A program that hides its own symbols catches weft's errors by their type.
#include <cstdio>
#include <exception>

#include "weft/weft.hpp"

int main() {
  try {
    const weft::Shape shape{2, -3};
    std::fprintf(stderr, "a shape of %s was accepted\n", shape.text().c_str());
  } catch (const weft::Error& error) {
    return error.code() == weft::Code::bad_argument ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "not a weft::Error any more: %s\n", error.what());
  }
  return 1;
}
