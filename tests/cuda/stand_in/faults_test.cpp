// Calls that the stand-in refuses and things that it breaks, on demand.
#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

class Faults : public OnDriver {};

TEST_F(Faults, TheNthCallIsRefusedAndNoOther) {
  control()->refuse("cuMemAlloc_v2", 2, DriverStatus::out_of_memory);
  const DevicePointer first = allocate(64);
  DevicePointer pointer = 0;
  EXPECT_EQ(driver().allocate(&pointer, 64), DriverStatus::out_of_memory);
  const DevicePointer third = allocate(64);
  EXPECT_EQ(control()->calls("cuMemAlloc_v2"), 3U);
  EXPECT_OK(driver().free(first));
  EXPECT_OK(driver().free(third));
}

/// Every function of the table can be refused, so a test of weft can fail each of its calls.
TEST_F(Faults, AnyFunctionCanBeRefused) {
  int refused = 0;
#define REFUSE(name, symbol, ...)                                                               \
  if (std::string(#name) != "error_name" && std::string(#name) != "error_string") {             \
    control()->refuse(#symbol, 1, DriverStatus::unknown);                                       \
    EXPECT_EQ(                                                                                  \
        [&]<typename... P>(DriverStatus (*call)(P...)) { return call(P{}...); }(driver().name), \
        DriverStatus::unknown)                                                                  \
        << #symbol;                                                                             \
    ++refused;                                                                                  \
  }
  WEFT_CUDA_CALLS(REFUSE)
#undef REFUSE
  EXPECT_GT(refused, 60);
}

TEST_F(Faults, ALostGpuAnswersNothingElseAndItsStreamsEnd) {
  Pinned<std::uint32_t> word(driver(), 1024);
  const DevicePointer pointer = allocate(64);
  word[0] = 0;
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  control()->lose(0, DriverStatus::device_unavailable);
  EXPECT_EQ(driver().synchronize_stream(stream()), DriverStatus::device_unavailable);
  EXPECT_EQ(driver().set_bytes(pointer, 1, 64, stream()), DriverStatus::device_unavailable);
  EXPECT_EQ(driver().free(pointer), DriverStatus::device_unavailable);
  control()->lose(0, DriverStatus::success);
  EXPECT_OK(driver().free(pointer));
}

class UnseenWrites : public OnDriver {
  stand_in::Options options() const override { return {.nic_writes_unseen = true}; }
};

TEST_F(UnseenWrites, AreSeenByTheGpuAfterAFlushOrANicsRead) {
  const DevicePointer pointer = allocate(64);
  fill(pointer, 64, 1);
  const std::vector<std::byte> two(64, std::byte{2});
  const std::vector<std::byte> three(64, std::byte{3});
  control()->nic_writes(pointer, two.data(), 64);
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 1));
  control()->ignore_flushes(true);
  EXPECT_OK(driver().flush_gpudirect(FlushTarget::current_context, FlushScope::owner));
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 1));
  control()->ignore_flushes(false);
  EXPECT_OK(driver().flush_gpudirect(FlushTarget::current_context, FlushScope::owner));
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 2));
  control()->nic_writes(pointer, three.data(), 64);
  std::vector<std::byte> seen(64);
  control()->nic_reads(seen.data(), pointer, 64);
  EXPECT_EQ(seen, three);
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 3));
  EXPECT_FALSE(control()->nic_reaches(pointer, 65));
  EXPECT_FALSE(control()->nic_reaches(address(seen.data()), 64));
  EXPECT_OK(driver().free(pointer));
}

class SmallGpu : public OnDriver {
  stand_in::Options options() const override {
    stand_in::Options options;
    options.gpus[0].bytes = 8 << 20;
    options.gpus[0].attributes = {{DeviceAttribute::dma_buf, 0},
                                  {DeviceAttribute::gpudirect, std::nullopt}};
    return options;
  }
};

TEST_F(SmallGpu, HoldsWhatItHolds) {
  const DevicePointer most = allocate(6 << 20);
  DevicePointer more = 0;
  EXPECT_EQ(driver().allocate(&more, 4 << 20), DriverStatus::out_of_memory);
  EXPECT_OK(driver().free(most));
  more = allocate(8 << 20);
  EXPECT_OK(driver().free(more));
}

TEST_F(SmallGpu, HasTheAttributesThatATestGives) {
  int value = 1;
  EXPECT_OK(driver().device_attribute(&value, DeviceAttribute::dma_buf, 0));
  EXPECT_EQ(value, 0);
  EXPECT_EQ(driver().device_attribute(&value, DeviceAttribute::gpudirect, 0),
            DriverStatus::invalid_value);
}

class LossyPeers : public OnDriver {
  stand_in::Options options() const override { return {.peer_writes_lost = true}; }
};

TEST_F(LossyPeers, SaySuccessAndWriteNothing) {
  Context other = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_OK(driver().push_context(other));
  const DevicePointer there = allocate(64);
  EXPECT_OK(driver().pop_context(&other));
  const DevicePointer here = allocate(64);
  fill(here, 64, 5);
  EXPECT_OK(driver().copy(there, here, 64, stream()));
  EXPECT_EQ(read(there, 64), std::vector<unsigned char>(64, 0));
  EXPECT_OK(driver().free(here));
  EXPECT_OK(driver().free(there));
  EXPECT_OK(driver().release_context(1));
}

class AstrayPeers : public OnDriver {
  stand_in::Options options() const override { return {.peer_writes_astray = true}; }
};

TEST_F(AstrayPeers, ReadBackWhatTheOwnerDoesNotSee) {
  Context other = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_OK(driver().push_context(other));
  const DevicePointer there = allocate(64);
  const StreamHandle theirs = make_stream();
  EXPECT_OK(driver().set_bytes(there, 1, 64, theirs));
  EXPECT_OK(driver().synchronize_stream(theirs));
  EXPECT_OK(driver().pop_context(&other));
  fill(there, 64, 5);
  EXPECT_EQ(read(there, 64), std::vector<unsigned char>(64, 5));
  EXPECT_OK(driver().push_context(other));
  std::vector<unsigned char> seen(64);
  EXPECT_OK(driver().copy(address(seen.data()), there, 64, theirs));
  EXPECT_EQ(seen, std::vector<unsigned char>(64, 1));
  EXPECT_OK(driver().destroy_stream(theirs));
  EXPECT_OK(driver().pop_context(&other));
  EXPECT_OK(driver().free(there));
  EXPECT_OK(driver().release_context(1));
}

class SecondGpuAlone : public OnDriver {
  stand_in::Options options() const override {
    return {.gpus = std::vector<stand_in::GpuOptions>(1), .first_gpu = 1};
  }
};

TEST_F(SecondGpuAlone, HasItsOwnUuidAndIsNumberZero) {
  int count = 0;
  EXPECT_OK(driver().device_count(&count));
  EXPECT_EQ(count, 1);
  Uuid uuid{};
  EXPECT_OK(driver().device_uuid(&uuid, 0));
  EXPECT_EQ(uuid.bytes[0], static_cast<char>(0xa1));
}

class LazyFaults : public OnDriver {
  stand_in::Options options() const override {
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)};
  }
};

TEST_F(LazyFaults, AnEventIsSaidToHaveEndedWhereATestWantsThat) {
  const DevicePointer gpu = allocate(64);
  const Event event = make_event();
  EXPECT_OK(driver().set_bytes(gpu, 1, 64, stream()));
  EXPECT_OK(driver().record_event(event, stream()));
  control()->claim_ends(1);
  EXPECT_OK(driver().query_event(event));
  EXPECT_EQ(*control()->reach(gpu, 1, 0), std::byte{0}) << "nothing has run";
  EXPECT_OK(driver().synchronize_event(event));
  EXPECT_EQ(*control()->reach(gpu, 1, 0), std::byte{1});
  EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().free(gpu));
}

class NoPeers : public OnDriver {
  stand_in::Options options() const override { return {.peer_access = false}; }
};

TEST_F(NoPeers, AreRefusedByEveryCallThatWouldNeedThem) {
  int can = 1;
  EXPECT_OK(driver().can_access_peer(&can, 0, 1));
  EXPECT_EQ(can, 0);
  Context other = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_EQ(driver().enable_peer(other, 0), DriverStatus::peer_access_unsupported);
  EXPECT_OK(driver().release_context(1));
}

TEST_F(Faults, MappedMemoryIsOutOfReachUntilAccessIsGiven) {
  AllocationProperties wanted{};
  wanted.kind = AllocationKind::pinned;
  wanted.location = {LocationKind::device, 0};
  std::size_t bytes = 0;
  EXPECT_OK(driver().granularity(&bytes, &wanted, Granularity::minimum));
  AllocationHandle handle = 0;
  DevicePointer pointer = 0;
  EXPECT_OK(driver().create_memory(&handle, bytes, &wanted, 0));
  int fd = -1;
  EXPECT_EQ(driver().export_memory(&fd, handle, HandleKind::descriptor, 0),
            DriverStatus::invalid_value);
  EXPECT_OK(driver().reserve_address(&pointer, bytes, 0, 0, 0));
  EXPECT_EQ(driver().set_bytes(pointer, 1, 64, stream()), DriverStatus::invalid_value);
  EXPECT_OK(driver().map_memory(pointer, bytes, 0, handle, 0));
  EXPECT_EQ(driver().set_bytes(pointer, 1, 64, stream()), DriverStatus::invalid_value);
  AccessDescription access{{LocationKind::device, 0}, DeviceAccess::read};
  EXPECT_OK(driver().set_access(pointer, bytes, &access, 1));
  EXPECT_EQ(driver().set_bytes(pointer, 1, 64, stream()), DriverStatus::invalid_value);
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 0));
  EXPECT_EQ(driver().free_address(pointer, bytes), DriverStatus::invalid_value);
  EXPECT_OK(driver().unmap_memory(pointer, bytes));
  EXPECT_OK(driver().free_address(pointer, bytes));
  EXPECT_OK(driver().release_memory(handle));
}

TEST_F(Faults, GpuMemoryCantBePinnedAsHostMemory) {
  const DevicePointer pointer = allocate(4096);
  EXPECT_EQ(driver().register_host(reinterpret_cast<void*>(pointer), 4096, 0),
            DriverStatus::invalid_value);
  EXPECT_OK(driver().free(pointer));
}

}  // namespace
}  // namespace weft::tests
