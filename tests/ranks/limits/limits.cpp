// A resource limit that stops a growing arena is an error that names it, never a signal, and the
// world goes on with its memory: limits address-space | file-size | descriptors
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"
#include "tests/ranks/limits/address_space.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;

constexpr std::int64_t kHuge = std::int64_t{1} << 30;

/// Applies a soft limit while it lives.
class Limit {
 public:
  Limit(int resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    rlimit now = before_;
    now.rlim_cur = value;
    setrlimit(resource_, &now);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  int resource_;
  rlimit before_{};
};

int lowest_free_descriptor() {
  const int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(probe);
  return probe;
}

void expect_exhausted(World& world, Checks& checks, const std::string& when) {
  try {
    (void)world.allocate(DType::u8, {kHuge});
    checks.expect(false, when + ": an allocation beyond the limit worked");
  } catch (const Error& error) {
    checks.expect(error.code() == Code::exhausted, when + ": " + error.what());
  }
}

/// Puts into this rank's own slot and to the next rank's.
void expect_usable(World& world, Checks& checks, const std::string& when) {
  const SlotSpec spec{.name = when, .dtype = DType::u8, .shape = {1000}, .depth = 1};
  auto slot = world.expose(spec);
  auto remote = world.attach((world.rank() + 1) % world.size(), spec);
  const auto tensor = world.allocate(spec.dtype, spec.shape);
  tests::fill(tensor, 1);
  remote.put(tensor).wait().or_throw();
  checks.expect(tests::holds(slot.wait().value().tensor(), 1), when + ": the tensor is wrong");
}

Limit limit_for(const std::string& name) {
  if (name == "address-space")
    return {RLIMIT_AS, tests::address_space_in_use() + (rlim_t{32} << 20)};
  if (name == "file-size") return {RLIMIT_FSIZE, rlim_t{1} << 20};
  return {RLIMIT_NOFILE, static_cast<rlim_t>(lowest_free_descriptor())};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  return tests::run_as_rank([&](World& world, Checks& checks) {
    expect_usable(world, checks, "before the limit");
    {
      const auto limit = limit_for(name);
      expect_exhausted(world, checks, "under the limit");
      expect_usable(world, checks, "after an allocation failed");
    }
    const auto tensor = world.allocate(DType::u8, {std::int64_t{100} << 20});
    checks.expect(!tensor.empty(), "with the limit gone the arena grows again");
    expect_usable(world, checks, "after the limit");
  });
}
