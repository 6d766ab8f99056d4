// A writer is stopped in the middle of a copy and declared dead, its memory is reused, and the
// writer is continued: no byte of the new tensor may change.
#include <signal.h>
#include <sys/types.h>

#include <cstring>
#include <thread>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::Checks;

constexpr std::int64_t kElements = 48 << 20;
const SlotSpec kSlot{.name = "large", .dtype = DType::u8, .shape = {kElements}};

const volatile std::byte& byte_at(const Tensor& tensor, std::size_t at) {
  return *(tensor.data() + at);
}

std::uint64_t quarantine(const World& world) {
  for (const auto& arena : world.report().arenas)
    if (arena.sort == "data") return arena.quarantined_bytes;
  return 0;
}

/// Puts tensors of ones, then twos, and so on, until a put throws.
void put_for_ever(World& world) {
  auto remote = world.attach(0, kSlot);
  const auto tensor = world.allocate(kSlot.dtype, kSlot.shape);
  for (int round = 1;; ++round) {
    std::memset(tensor.data(), round % 250 + 1, tensor.bytes());
    if (!remote.put(tensor).wait(Deadline::after(seconds(30))).ok()) return;
  }
}

/// Stops the writer while its copy is under way: the first byte is new, the last is not.
bool stop_in_mid_copy(Slot& slot, const Tensor& buffer, pid_t writer) {
  const auto end = Deadline::after(seconds(30));
  while (!end.passed()) {
    if (slot.ready()) (void)slot.wait();  // whole already: the next one
    const std::byte last = byte_at(buffer, kElements - 1);
    if (byte_at(buffer, 0) == last) continue;
    kill(writer, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(20));
    if (byte_at(buffer, 0) != byte_at(buffer, kElements - 1)) return true;
    kill(writer, SIGCONT);
  }
  return false;
}

void own(World& world, Checks& checks) {
  const pid_t writer = world.report().paths[1].pid;
  auto memory = world.allocate(kSlot.dtype, kSlot.shape);
  std::byte* const place = memory.data();
  std::memset(place, 0, memory.bytes());
  auto slot = world.expose(kSlot, memory);
  checks.expect(stop_in_mid_copy(slot, memory, writer),
                "the writer could not be stopped in mid-copy");

  world.declare_dead(1, "it was stopped");
  const auto waited = slot.wait(Deadline::after(seconds(5)));
  checks.expect(waited.code() == Code::peer_failed, "wait: " + waited.status().text());
  checks.expect(waited.status().text().find("it was stopped") != std::string::npos,
                "the reason is missing: " + waited.status().text());
  memory = {};
  slot = Slot();
  // The same memory is allocated again, and only after the writer can't write there any more.
  Tensor again;
  for (const auto end = Deadline::after(seconds(10)); again.data() != place && !end.passed();)
    again = world.allocate(kSlot.dtype, kSlot.shape);
  checks.expect(again.data() == place, "the memory did not come back");
  tests::fill(again, 7);
  kill(writer, SIGCONT);
  std::this_thread::sleep_for(milliseconds(300));
  checks.expect(tests::holds(again, 7), "the stopped writer wrote into the new tensor");
  checks.expect(quarantine(world) == 0, "quarantine is not empty");
}

}  // namespace

int main() {
  return tests::run_as_rank([](World& world, Checks& checks) {
    if (world.rank() == 0) {
      own(world, checks);
      if (checks.passed()) std::puts("fencing held");
    } else {
      put_for_ever(world);
    }
  });
}
