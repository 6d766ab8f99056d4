// A reader that stores to a view gets a fault; the published model stays unchanged.

#include <csetjmp>
#include <csignal>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using tests::Checks;

sigjmp_buf before_the_store;

void on_fault(int) { siglongjmp(before_the_store, 1); }

/// Whether a store to `address` faults.
bool store_faults(std::byte* address) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = on_fault;
  sigaction(SIGSEGV, &action, &previous);
  volatile bool faulted = true;  // a jump brings back no register
  if (sigsetjmp(before_the_store, 1) == 0) {
    *const_cast<volatile std::byte*>(address) = std::byte{0x55};
    faulted = false;
  }
  sigaction(SIGSEGV, &previous, nullptr);
  return faulted;
}

}  // namespace

int main() {
  return tests::run_as_rank([](World& world, Checks& checks) {
    const PublishedSpec model{.name = "model", .dtype = DType::f32, .shape = {5000}};
    const SlotSpec done{.name = "done", .dtype = DType::u8, .shape = {1}};
    if (world.rank() == 0) {
      auto slot = world.expose_published(model);
      auto finished = world.expose(done);
      const auto values = slot.next().value();
      tests::fill(values, 1);
      slot.publish().or_throw();
      finished.wait().value();
      checks.expect(tests::holds(values, 1), "the model was changed by a reader");
    } else {
      auto remote = world.attach_published(0, model);
      auto finished = world.attach(0, done);
      {
        const auto view = remote.view().value();
        checks.expect(tests::holds(view.tensor(), 1), "the view is wrong");
        checks.expect(store_faults(view.tensor().data()), "a store to a view went through");
      }
      finished.put(world.allocate(DType::u8, {1})).wait().or_throw();
    }
  });
}
