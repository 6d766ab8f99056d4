// A control group's memory limit stops an arena's growth with an error, before the kernel kills a
// process. Runs in a group that allows far less than 1 GiB.
#include <string>

#include "tests/ranks/checks.hpp"

int main() {
  using namespace weft;
  return tests::run_as_rank([](World& world, tests::Checks& checks) {
    try {
      (void)world.allocate(DType::u8, {std::int64_t{1} << 30});
      checks.expect(false, "an allocation beyond the group's limit worked");
    } catch (const Error& error) {
      const std::string text = error.what();
      checks.expect(error.code() == Code::exhausted, text);
      checks.expect(text.find("weft-test-") != std::string::npos, "names no group: " + text);
    }
    checks.expect(!world.allocate(DType::u8, {1000}).empty(), "the world is not usable any more");
  });
}
