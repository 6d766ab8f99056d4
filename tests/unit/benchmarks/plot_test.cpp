#include "benchmarks/output/plot.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::bench {
namespace {

Row row(std::size_t size, const std::string& kind, double weft, double peer) {
  Row result;
  result.size = size;
  result.kind = kind;
  result.weft_us = weft;
  result.limit = {weft / 2, 2, 0};
  result.peers["grpc"] = {peer, weft / peer, 0};
  return result;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Plot, HasALineForEachProgramAndKind) {
  const std::string picture = svg("fig7", {row(1024, "put", 1, 100), row(1024, "view", 2, 100),
                                           row(4096, "put", 3, 300), row(4096, "view", 4, 300)});
  for (const char* name : {">weft, put<", ">weft, view<", ">limit, put<", ">limit, view<"})
    EXPECT_EQ(count(picture, name), 1U) << name;
  // The peer's times are the same for both kinds: one line, with a mark for each size.
  EXPECT_EQ(count(picture, ">grpc<"), 1U) << picture;
  EXPECT_EQ(count(picture, "<title>grpc"), 2U);
  EXPECT_EQ(count(picture, "<circle"), 10U);
}

TEST(Plot, SmallerTimesAreLower) {
  const std::string picture = svg("x", {row(1, "put", 1, 1000)});
  const auto y_of = [&](const std::string& name) {
    const auto title = picture.find("<title>" + name);
    return std::stod(picture.substr(picture.rfind("cy=\"", title) + 4));
  };
  EXPECT_GT(y_of("weft"), y_of("grpc"));
}

TEST(Plot, OfNothingIsRefused) { EXPECT_THROW(svg("x", {}), std::runtime_error); }

}  // namespace
}  // namespace weft::bench
