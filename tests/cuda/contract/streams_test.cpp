// The contract with the driver: streams, events, words and host functions.
#include <atomic>
#include <thread>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

/// On the stand-in each operation takes its time, so that what is not ordered shows.
class StreamContract : public OnDriver {
 protected:
  stand_in::Options options() const override { return {.delay = std::chrono::microseconds(300)}; }

  void set(Pinned<std::uint32_t>& word, std::uint32_t value) {
    std::atomic_ref<std::uint32_t>(word[0]).store(value, std::memory_order_release);
  }
  static std::uint32_t get(Pinned<std::uint32_t>& word) {
    return std::atomic_ref<std::uint32_t>(word[0]).load(std::memory_order_acquire);
  }
};

constexpr std::size_t kMany = 1 << 20;

TEST_F(StreamContract, OperationsOfAStreamAreInOrder) {
  const DevicePointer pointer = allocate(kMany);
  for (int round = 0; round < 20; ++round)
    EXPECT_OK(driver().set_bytes(pointer, static_cast<unsigned char>(round), kMany, stream()));
  EXPECT_EQ(read(pointer, kMany), std::vector<unsigned char>(kMany, 19));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(StreamContract, AnEventOrdersOneStreamBehindAnother) {
  const DevicePointer pointer = allocate(kMany);
  const StreamHandle other = make_stream();
  const Event event = make_event();
  for (unsigned char round = 1; round < 10; ++round) {
    EXPECT_OK(driver().set_bytes(pointer, round, kMany, other));
    EXPECT_OK(driver().record_event(event, other));
    EXPECT_OK(driver().wait_event(stream(), event, 0));
    EXPECT_EQ(read(pointer, kMany), std::vector<unsigned char>(kMany, round));
  }
  EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(StreamContract, AnEventThatWasNeverRecordedIsDone) {
  const Event event = make_event();
  EXPECT_OK(driver().query_event(event));
  EXPECT_OK(driver().synchronize_event(event));
  EXPECT_OK(driver().wait_event(stream(), event, 0));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(StreamContract, AWordOfTheProcessorHoldsAStream) {
  Pinned<std::uint32_t> word(driver(), 1024);
  const Event event = make_event();
  set(word, 0);
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 5, kWaitValueGreaterOrEqual));
  EXPECT_OK(driver().record_event(event, stream()));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(driver().query_event(event), DriverStatus::not_ready);
  EXPECT_EQ(driver().query_stream(stream()), DriverStatus::not_ready);
  set(word, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(driver().query_event(event), DriverStatus::not_ready);
  set(word, 6);
  EXPECT_OK(driver().synchronize_event(event));
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(StreamContract, GreaterOrEqualGoesRoundAndEqualIsExact) {
  Pinned<std::uint32_t> word(driver(), 1024);
  set(word, 2);  // after 2^32 - 1
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 0xfffffffe, kWaitValueGreaterOrEqual));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(driver().query_stream(stream()), DriverStatus::not_ready);
  set(word, 1);
  EXPECT_OK(driver().synchronize_stream(stream()));
}

TEST_F(StreamContract, AWordThatAStreamWritesComesAfterItsCopies) {
  Pinned<std::uint32_t> word(driver(), 1024);
  Pinned<unsigned char> host(driver(), kMany);
  const DevicePointer pointer = allocate(kMany);
  fill(pointer, kMany, 0x5a);
  set(word, 0);
  EXPECT_OK(driver().copy(host.at(), pointer, kMany, stream()));
  EXPECT_OK(driver().write_value32(stream(), word.at(), 1, kWriteValueDefault));
  while (get(word) == 0) std::this_thread::yield();
  EXPECT_EQ(host.values(), std::vector<unsigned char>(kMany, 0x5a));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(StreamContract, AWordInGpuMemoryHoldsAStreamUntilAnotherWritesIt) {
  const DevicePointer word = allocate(64);
  const StreamHandle other = make_stream();
  fill(word, 64, 0);
  EXPECT_OK(driver().wait_value32(stream(), word, 1, kWaitValueEqual));
  EXPECT_OK(driver().write_value32(stream(), word, 0, kWriteValueDefault));
  EXPECT_EQ(driver().query_stream(stream()), DriverStatus::not_ready);
  EXPECT_OK(driver().write_value32(other, word, 1, kWriteValueDefault));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(read(word, 4), std::vector<unsigned char>(4, 0));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(word));
}

TEST_F(StreamContract, AHostFunctionRunsAtItsPlace) {
  Pinned<unsigned char> host(driver(), kMany);
  const DevicePointer pointer = allocate(kMany);
  struct Seen {
    Pinned<unsigned char>* host;
    int value;
    std::thread::id thread;
  } seen{&host, -1, {}};
  EXPECT_OK(driver().set_bytes(pointer, 7, kMany, stream()));
  EXPECT_OK(driver().copy(host.at(), pointer, kMany, stream()));
  EXPECT_OK(driver().launch_host_function(
      stream(),
      [](void* user) {
        auto* seen = static_cast<Seen*>(user);
        seen->value = (*seen->host)[kMany - 1];
        seen->thread = std::this_thread::get_id();
      },
      &seen));
  EXPECT_OK(driver().set_bytes(pointer, 8, kMany, stream()));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(seen.value, 7);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(StreamContract, AWaitMeansTheRecordOfItsTime) {
  Pinned<std::uint32_t> word(driver(), 1024);
  const StreamHandle other = make_stream();
  const Event event = make_event();
  set(word, 0);
  EXPECT_OK(driver().record_event(event, other));
  EXPECT_OK(driver().wait_event(stream(), event, 0));
  EXPECT_OK(driver().wait_value32(other, word.at(), 1, kWaitValueEqual));
  EXPECT_OK(driver().record_event(event, other));  // not done before the word is set
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(driver().query_event(event), DriverStatus::not_ready);
  set(word, 1);
  EXPECT_OK(driver().synchronize_event(event));
  EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().destroy_stream(other));
}

TEST_F(StreamContract, ANonBlockingStreamDoesNotWaitForTheNullStream) {
  Pinned<std::uint32_t> word(driver(), 1024);
  set(word, 0);
  const DevicePointer pointer = allocate(64);
  const StreamHandle free_one = stream();
  EXPECT_OK(driver().wait_value32(nullptr, word.at(), 1, kWaitValueEqual));
  EXPECT_OK(driver().set_bytes(pointer, 1, 64, free_one));
  EXPECT_OK(driver().synchronize_stream(free_one));
  EXPECT_EQ(driver().query_stream(nullptr), DriverStatus::not_ready);
  set(word, 1);
  EXPECT_OK(driver().synchronize_stream(nullptr));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(StreamContract, ABlockingStreamIsInOrderWithTheNullStream) {
  const DevicePointer pointer = allocate(kMany);
  StreamHandle blocking = nullptr;
  EXPECT_OK(driver().create_stream(&blocking, 0));
  EXPECT_OK(driver().set_bytes(pointer, 1, kMany, blocking));
  EXPECT_OK(driver().set_bytes(pointer, 2, kMany, nullptr));
  EXPECT_OK(driver().set_bytes(pointer, 3, kMany, blocking));
  EXPECT_OK(driver().synchronize_stream(blocking));
  EXPECT_EQ(read(pointer, kMany), std::vector<unsigned char>(kMany, 3));
  EXPECT_OK(driver().destroy_stream(blocking));
  EXPECT_OK(driver().free(pointer));
}

}  // namespace
}  // namespace weft::tests
