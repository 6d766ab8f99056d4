#include "benchmarks/driver/catalogue.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace weft::bench {
namespace {

std::string refusal(std::string_view name, std::size_t size) {
  try {
    check_sizes(description_of(name), std::vector<std::size_t>{size});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Catalogue, EveryBenchmarkCanRunAtItsOwnSizes) {
  std::set<std::string_view> names;
  for (const Description& benchmark : catalogue()) {
    EXPECT_TRUE(names.insert(benchmark.name).second) << benchmark.name;
    EXPECT_FALSE(benchmark.sizes.empty()) << benchmark.name;
    EXPECT_FALSE(benchmark.quick_sizes.empty()) << benchmark.name;
    EXPECT_NO_THROW(check_sizes(benchmark, benchmark.sizes));
    EXPECT_NO_THROW(check_sizes(benchmark, benchmark.quick_sizes));
    EXPECT_GE(benchmark.memory(1000, 2), 2000U) << benchmark.name;
    EXPECT_NE(help_text().find(benchmark.name), std::string::npos) << benchmark.name;
  }
}

TEST(Catalogue, ARefusedSizeIsNamedWithWhatIsTaken) {
  EXPECT_EQ(refusal("latency", 8), "");
  EXPECT_EQ(refusal("latency", 16), "--sizes: latency takes 1 to 8 bytes, not 16");
  EXPECT_EQ(refusal("pushpull", 10), "--sizes: pushpull takes multiples of 4 bytes, not 10");
  EXPECT_EQ(refusal("get-bw", (1U << 30) + 1),
            "--sizes: get-bw takes 1 to 1073741824 bytes, not 1073741825");
  EXPECT_EQ(refusal("get-bw", 1U << 30), "");
}

TEST(Catalogue, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    description_of("put");
    FAIL() << "there is no benchmark of that name";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("'put'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("put-bw"), std::string::npos);
  }
}

TEST(Catalogue, MoreReadersTakeMoreMemory) {
  const Description& publish = description_of("publish");
  EXPECT_EQ(publish.memory(10, 8) - publish.memory(10, 2), 180U);
}

}  // namespace
}  // namespace weft::bench
