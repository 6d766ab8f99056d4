// Complaints of the stand-in: each defect is made on purpose.
#include <csetjmp>
#include <csignal>
#include <thread>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

sigjmp_buf back;
void jump_back(int) { siglongjmp(back, 1); }

class Complaints : public OnDriver {
 protected:
  /// The only complaint there is.
  std::string complaint() {
    const auto all = control()->take_complaints();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? "" : all[0];
  }
  void expect(const std::string& words) {
    const std::string text = complaint();
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
};

TEST_F(Complaints, AProcessorThatLoadsGpuMemoryEndsWithSigsegv) {
  const DevicePointer pointer = allocate(4096);
  struct sigaction trap {
  }, before{};
  trap.sa_handler = jump_back;
  ASSERT_EQ(::sigaction(SIGSEGV, &trap, &before), 0);
  volatile bool loaded = false;
  if (sigsetjmp(back, 1) == 0) {
    [[maybe_unused]] const volatile auto byte = *reinterpret_cast<const volatile char*>(pointer);
    loaded = true;
  }
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_FALSE(loaded);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(Complaints, NoCurrentContext) {
  std::thread([this] {
    StreamHandle none = nullptr;
    EXPECT_EQ(driver().create_stream(&none, 0), DriverStatus::invalid_context);
  }).join();
  expect("cuStreamCreate: the thread has no current context");
}

TEST_F(Complaints, AContextLeftChanged) {
  control()->call_begins("put");
  EXPECT_OK(driver().set_context(nullptr));
  control()->call_ends();
  expect("put: left another current context");
  EXPECT_OK(driver().set_context(context()));
  control()->call_begins("get");
  Context popped = nullptr;
  EXPECT_OK(driver().push_context(context()));
  EXPECT_OK(driver().pop_context(&popped));
  control()->call_ends();
}

TEST_F(Complaints, AContextPushedByAThreadThatEnds) {
  std::thread([this] { EXPECT_OK(driver().push_context(context())); }).join();
  expect("a thread ended with 1 contexts pushed");
}

TEST_F(Complaints, CallsThatMayHangWhileAStreamWaitsOnAWord) {
  Pinned<std::uint32_t> word(driver(), 1024);
  std::vector<char> more(4096), pageable(64);
  const DevicePointer pointer = allocate(4096);
  DevicePointer other = 0;
  word[0] = 0;
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  // The application may, since weft sets the word.
  EXPECT_OK(driver().allocate(&other, 64));
  EXPECT_EQ(control()->complaints().size(), 0U);
  control()->act_for_application(false);
  const StreamHandle free_one = make_stream();
  EXPECT_OK(driver().free(other));
  expect("cuMemFree_v2: called while a stream waits on a word");
  EXPECT_OK(driver().allocate(&other, 64));
  expect("cuMemAlloc_v2: called while");
  EXPECT_OK(driver().register_host(more.data(), more.size(), 0));
  expect("cuMemHostRegister_v2: called while");
  EXPECT_OK(driver().unregister_host(more.data()));
  expect("cuMemHostUnregister: called while");
  Module module = nullptr;
  EXPECT_OK(driver().load_module(&module, "image"));
  expect("cuModuleLoadData: called while");
  EXPECT_OK(driver().synchronize_stream(free_one));
  expect("cuStreamSynchronize: called while");
  EXPECT_OK(driver().copy(other, address(pageable.data()), 64, free_one));
  expect("cuMemcpyAsync: pageable memory while");
  std::atomic_ref<std::uint32_t>(word[0]).store(1);
  EXPECT_OK(driver().synchronize_stream(stream()));
  control()->take_complaints();
  EXPECT_OK(driver().unload_module(module));
  EXPECT_OK(driver().free(other));
  EXPECT_OK(driver().free(pointer));
  EXPECT_OK(driver().destroy_stream(free_one));
}

TEST_F(Complaints, FreedMemory) {
  Pinned<std::uint32_t> word(driver(), 1024);
  const DevicePointer pointer = allocate(4096);
  word[0] = 0;
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  EXPECT_OK(driver().set_bytes(pointer, 1, 64, stream()));
  EXPECT_OK(driver().free(pointer));
  std::atomic_ref<std::uint32_t>(word[0]).store(1);
  EXPECT_EQ(driver().synchronize_stream(stream()), DriverStatus::illegal_address);
  expect("touches freed GPU memory");
  control()->lose(0, DriverStatus::success);
}

TEST_F(Complaints, ACallOfAHostFunction) {
  struct Both {
    const Driver* driver;
    StreamHandle stream;
  } both{&driver(), stream()};
  EXPECT_OK(driver().launch_host_function(
      stream(),
      [](void* user) {
        const auto* both = static_cast<Both*>(user);
        EXPECT_EQ(both->driver->query_stream(both->stream), DriverStatus::not_permitted);
      },
      &both));
  EXPECT_OK(driver().synchronize_stream(stream()));
  expect("cuStreamQuery: called by a host function");
}

TEST_F(Complaints, ADmaBufForPcieAlone) {
  constexpr std::size_t kChunk = std::size_t{2} << 20;
  const DevicePointer pointer = allocate(kChunk);
  int fd = -1;
  EXPECT_EQ(driver().range_handle(&fd, pointer, kChunk, RangeHandle::dma_buf, 1),
            DriverStatus::invalid_value);
  expect("cuMemGetHandleForAddressRange: a mapping by PCIe alone");
  EXPECT_OK(driver().free(pointer));
}

TEST_F(Complaints, LeftoversAreListedAndAStandInWithThemGoesOn) {
  const DevicePointer pointer = allocate(4096);
  const Event event = make_event();
  const std::vector<std::string> all{"allocations: 1", "events: 1",
                                     "retains of the context of device 0: 1"};
  EXPECT_EQ(control()->leftovers(), all);
  EXPECT_EQ(control()->restart({}), all);
  fill(pointer, 64, 1);
  EXPECT_OK(driver().free(pointer));
  EXPECT_OK(driver().destroy_event(event));
}

}  // namespace
}  // namespace weft::tests
