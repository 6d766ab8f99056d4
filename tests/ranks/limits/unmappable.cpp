// A rank that can't map another's memory says so at once, with the name of the missing resource,
// and goes on once it can map the memory: unmappable address-space | descriptors
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"
#include "tests/ranks/limits/address_space.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"

namespace {

using namespace weft;
using std::chrono::seconds;
using weft::tests::Checks;

/// Leaves this process no room for a new mapping of a given size, or for a descriptor.
class NoRoom {
 public:
  explicit NoRoom(const std::string& of) {
    const int resource = of == "address-space" ? RLIMIT_AS : RLIMIT_NOFILE;
    resource_ = resource;
    getrlimit(resource, &before_);
    rlimit now = before_;
    if (of == "address-space") {
      now.rlim_cur = tests::address_space_in_use() + (rlim_t{8} << 20);
      setrlimit(resource, &now);
    } else {
      for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    }
  }
  ~NoRoom() {
    for (const int fd : taken_) close(fd);
    setrlimit(resource_, &before_);
  }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  int resource_ = 0;
  rlimit before_{};
  std::vector<int> taken_;
};

class Watch {
 public:
  bool is_quick() const { return Clock::now() - begun_ < seconds(1); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_ = Clock::now();
};

constexpr std::int64_t kLarge = std::int64_t{64} << 20;

const SlotSpec kPut{.name = "put", .dtype = DType::u8, .shape = {kLarge}};
const PublishedSpec kView{.name = "view", .dtype = DType::u8, .shape = {kLarge}};

void expect_exhausted(Checks& checks, const Status& status, const Watch& watch,
                      const std::string& what) {
  checks.expect(status.code() == Code::exhausted && watch.is_quick(), what + ": " + status.text());
  checks.expect(status.text().find("of rank 0 can't be") != std::string::npos,
                what + " does not tell whose memory: " + status.text());
}

template <typename Attach>
Status outcome_of(const Attach& attach) {
  try {
    (void)attach();
    return {};
  } catch (const Error& error) {
    return error.status();
  }
}
Status attach_to_put(World& world) {
  return outcome_of([&] { return world.attach(0, kPut, Deadline::after(seconds(5))); });
}
Status attach_to_view(World& world) {
  return outcome_of([&] { return world.attach_published(0, kView, Deadline::after(seconds(5))); });
}

/// Rank 0 owns the memory that rank 1 can't map.
void run(World& world, Checks& checks, const std::string& lacking) {
  Collectives group = Collectives::open(world);
  Messages messages(world);
  const auto meet = [&] { group.run(barrier(), Deadline::after(seconds(20))).or_throw(); };
  const bool owns = world.rank() == 0;
  const Tensor small = world.allocate(DType::u8, {1 << 20});
  Collectives once = Collectives::open(world);
  meet();
  {
    Slot put;
    PublishedSlot view;
    std::unique_ptr<NoRoom> no_room;
    if (!owns) no_room = std::make_unique<NoRoom>(lacking);
    meet();
    Tensor tensor = small;
    if (owns) tensor = world.allocate(DType::u8, {kLarge}).part(0, {1 << 20});
    tests::fill(tensor, 1);
    if (owns) {
      put = world.expose(kPut);
      view = world.expose_published(kView);
    }
    meet();
    const Watch watch;
    const Status reduced =
        once.run(all_reduce(tensor, Reduction::max), Deadline::after(seconds(5)));
    expect_exhausted(checks, reduced, watch, "all_reduce");
    if (owns) {
      const auto exchanged =
          messages.sendrecv(1, 1, tensor, 1, 2, small, Deadline::after(seconds(20)));
      checks.expect(exchanged.ok(), "sendrecv: " + exchanged.status().text());
    } else {
      const Watch exchanging;
      const auto exchanged =
          messages.sendrecv(0, 2, small, 0, 1, tensor, Deadline::after(seconds(5)));
      expect_exhausted(checks, exchanged.status(), exchanging, "sendrecv");
      const Watch to_put;
      expect_exhausted(checks, attach_to_put(world), to_put, "attach to put");
      const Watch to_view;
      expect_exhausted(checks, attach_to_view(world), to_view, "attach to view");
    }
    if (!owns) no_room.reset();
    if (!owns) {
      Status got;
      for (int tries = 0; tries < 50; ++tries) {
        got = messages.recv(0, 1, tensor, Deadline::after(seconds(20))).status();
        if (got.code() != Code::exhausted) break;
        usleep(20'000);
      }
      checks.expect(got.ok() && tests::holds(tensor, 1), "recv with room: " + got.text());
      Status attached;
      for (int tries = 0; tries < 50; ++tries) {
        attached = attach_to_put(world);
        if (attached.ok()) break;
        usleep(20'000);
      }
      checks.expect(attached.ok(), "attach with room: " + attached.text());
    }
    meet();
    once = Collectives::open(world);
    const Status again = once.run(all_reduce(tensor, Reduction::max), Deadline::after(seconds(20)));
    checks.expect(again.ok(), "all_reduce with room: " + again.text());
    meet();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string lacking = argc == 2 ? argv[1] : "";
  return tests::run_as_rank([&](World& world, Checks& checks) { run(world, checks, lacking); });
}
