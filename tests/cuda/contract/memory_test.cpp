// The contract with the driver: GPU memory, pinned host memory and addresses.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

class MemoryContract : public OnDriver {};

constexpr std::size_t kBytes = 3 << 20;

TEST_F(MemoryContract, NoSystemCallTouchesGpuMemory) {
  const DevicePointer pointer = allocate(kBytes);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(::send(ends[0], reinterpret_cast<void*>(pointer), 64, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  // Pages that can't be pinned: what a NIC's registration as host memory comes to.
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  iovec part{reinterpret_cast<void*>(pointer), 4096};
  EXPECT_EQ(::vmsplice(pipe_ends[1], &part, 1, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  for (const int fd : {ends[0], ends[1], pipe_ends[0], pipe_ends[1]}) ::close(fd);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(MemoryContract, BytesComeBackAsTheyWent) {
  const DevicePointer pointer = allocate(kBytes);
  const DevicePointer other = allocate(kBytes);
  Pinned<unsigned char> host(driver(), kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<unsigned char>(i * 7);
  EXPECT_OK(driver().copy(pointer, host.at(), kBytes, stream()));
  EXPECT_OK(driver().copy(other, pointer, kBytes, stream()));
  EXPECT_EQ(read(other, kBytes), host.values());
  EXPECT_OK(driver().free(pointer));
  EXPECT_OK(driver().free(other));
}

TEST_F(MemoryContract, PageableMemoryMayChangeOnceTheCallReturned) {
  const DevicePointer pointer = allocate(64);
  std::vector<unsigned char> host(64, 1);
  EXPECT_OK(driver().copy(pointer, address(host.data()), 64, stream()));
  host.assign(64, 2);
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 1));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(MemoryContract, AnAddressTellsItsKindGpuAndRange) {
  const DevicePointer pointer = allocate(1000);
  unsigned kind = 0;
  int ordinal = -1;
  DevicePointer start = 0;
  std::size_t bytes = 0;
  const DevicePointer within = pointer + 999;
  EXPECT_OK(driver().pointer_attribute(&kind, PointerAttribute::memory_kind, within));
  EXPECT_EQ(kind, static_cast<unsigned>(MemoryKind::device));
  EXPECT_OK(driver().pointer_attribute(&ordinal, PointerAttribute::device_ordinal, within));
  EXPECT_EQ(ordinal, 0);
  EXPECT_OK(driver().pointer_attribute(&start, PointerAttribute::range_start, within));
  EXPECT_EQ(start, pointer);
  EXPECT_OK(driver().address_range(&start, &bytes, within));
  EXPECT_EQ(start, pointer);
  EXPECT_EQ(bytes, 1000U);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(MemoryContract, BuffersAtOneAddressHaveDifferentNumbers) {
  unsigned long long first = 0, second = 0;
  DevicePointer pointer = allocate(kBytes);
  EXPECT_OK(driver().pointer_attribute(&first, PointerAttribute::buffer_id, pointer));
  EXPECT_OK(driver().free(pointer));
  pointer = allocate(kBytes);
  EXPECT_OK(driver().pointer_attribute(&second, PointerAttribute::buffer_id, pointer));
  EXPECT_NE(first, second);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(MemoryContract, FreedAddressesAreUnknown) {
  const DevicePointer pointer = allocate(kBytes);
  EXPECT_OK(driver().free(pointer));
  unsigned kind = 0;
  EXPECT_EQ(driver().pointer_attribute(&kind, PointerAttribute::memory_kind, pointer),
            DriverStatus::invalid_value);
  EXPECT_EQ(driver().free(pointer), DriverStatus::invalid_value);
}

TEST_F(MemoryContract, OrdinaryHostMemoryIsUnknownAndPinnedMemoryIsNot) {
  std::vector<int> ordinary(16);
  unsigned kind = 0;
  EXPECT_EQ(
      driver().pointer_attribute(&kind, PointerAttribute::memory_kind, address(ordinary.data())),
      DriverStatus::invalid_value);
  Pinned<int> pinned(driver(), 4096);
  EXPECT_OK(driver().pointer_attribute(&kind, PointerAttribute::memory_kind, pinned.at()));
  EXPECT_EQ(kind, static_cast<unsigned>(MemoryKind::host));
  DevicePointer same = 0;
  EXPECT_OK(driver().host_device_pointer(&same, &pinned[0], 0));
  EXPECT_EQ(same, pinned.at());
}

TEST_F(MemoryContract, PinningTwiceAndUnpinningWhatIsNotAreErrors) {
  Pinned<int> pinned(driver(), 4096);
  EXPECT_EQ(driver().register_host(&pinned[0], 4096, kHostRegisterPortable),
            DriverStatus::already_registered);
  std::vector<int> ordinary(4096);
  EXPECT_EQ(driver().unregister_host(ordinary.data()), DriverStatus::not_registered);
}

TEST_F(MemoryContract, TooMuchIsAnAnswerAfterWhichAllGoesOn) {
  DevicePointer pointer = 0;
  EXPECT_EQ(driver().allocate(&pointer, std::size_t{1} << 45), DriverStatus::out_of_memory);
  std::size_t free = 0, total = 0, all = 0;
  EXPECT_OK(driver().memory_info(&free, &total));
  EXPECT_OK(driver().device_bytes(&all, 0));
  EXPECT_LE(free, total);
  EXPECT_EQ(total, all);
  const DevicePointer small = allocate(64);
  fill(small, 64, 9);
  EXPECT_EQ(read(small, 64), std::vector<unsigned char>(64, 9));
  EXPECT_OK(driver().free(small));
}

TEST_F(MemoryContract, CopiesBeyondAnAllocationAreRefused) {
  const DevicePointer pointer = allocate(kBytes);
  Pinned<unsigned char> host(driver(), 2 * kBytes);
  EXPECT_EQ(driver().copy(host.at(), pointer, 64 * kBytes, stream()), DriverStatus::invalid_value);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(MemoryContract, GpusReachEachOthersMemoryWhereTheySaySo) {
  int can = 0;
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU";
  EXPECT_OK(driver().can_access_peer(&can, 0, 1));
  int attribute = 0;
  EXPECT_OK(driver().peer_attribute(&attribute, PeerAttribute::access, 0, 1));
  EXPECT_EQ(attribute, can);
  if (can == 0) GTEST_SKIP() << "the GPUs don't reach each other";
  Context other = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_OK(driver().enable_peer(other, 0));
  EXPECT_EQ(driver().enable_peer(other, 0), DriverStatus::peer_access_enabled);
  EXPECT_OK(driver().push_context(other));
  const DevicePointer there = allocate(kBytes);
  EXPECT_OK(driver().pop_context(&other));
  const DevicePointer here = allocate(kBytes);
  fill(here, kBytes, 5);
  EXPECT_OK(driver().copy(there, here, kBytes, stream()));
  EXPECT_EQ(read(there, kBytes), std::vector<unsigned char>(kBytes, 5));
  int ordinal = -1;
  EXPECT_OK(driver().pointer_attribute(&ordinal, PointerAttribute::device_ordinal, there));
  EXPECT_EQ(ordinal, 1);
  EXPECT_OK(driver().free(here));
  EXPECT_OK(driver().free(there));
  EXPECT_OK(driver().release_context(1));
}

}  // namespace
}  // namespace weft::tests
