// The contract with the driver: memory that other processes and NICs get.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

/// GPU memory with addresses of its own, which a descriptor gives to others.
class Chunk {
 public:
  Chunk(const Driver& driver, std::size_t bytes) : driver_(driver) {
    AllocationProperties wanted = properties();
    std::size_t granule = 0;
    EXPECT_OK(driver_.granularity(&granule, &wanted, Granularity::minimum));
    bytes_ = (bytes + granule - 1) / granule * granule;
    EXPECT_OK(driver_.create_memory(&handle_, bytes_, &wanted, 0));
    map();
  }
  /// Another mapping of exported memory, for copies by the GPU `by`.
  Chunk(const Driver& driver, std::size_t bytes, int fd, int by = 0)
      : driver_(driver), bytes_(bytes), by_(by) {
    EXPECT_OK(driver_.import_memory(
        &handle_, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), HandleKind::descriptor));
    map();
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() {
    EXPECT_OK(driver_.unmap_memory(pointer_, bytes_));
    EXPECT_OK(driver_.free_address(pointer_, bytes_));
    EXPECT_OK(driver_.release_memory(handle_));
  }

  static AllocationProperties properties() {
    AllocationProperties wanted{};
    wanted.kind = AllocationKind::pinned;
    wanted.handles = HandleKind::descriptor;
    wanted.location = {LocationKind::device, 0};
    return wanted;
  }
  int export_it() const {
    int fd = -1;
    EXPECT_OK(driver_.export_memory(&fd, handle_, HandleKind::descriptor, 0));
    return fd;
  }
  DevicePointer at() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  AllocationHandle handle() const { return handle_; }

 private:
  void map() {
    EXPECT_OK(driver_.reserve_address(&pointer_, bytes_, 0, 0, 0));
    EXPECT_OK(driver_.map_memory(pointer_, bytes_, 0, handle_, 0));
    allow(by_);
  }

 public:
  void allow(int gpu) {
    const AccessDescription access{{LocationKind::device, gpu}, DeviceAccess::write};
    EXPECT_OK(driver_.set_access(pointer_, bytes_, &access, 1));
  }

 private:
  const Driver& driver_;
  std::size_t bytes_ = 0;
  int by_ = 0;
  AllocationHandle handle_ = 0;
  DevicePointer pointer_ = 0;
};

class SharingContract : public OnDriver {
 protected:
  /// The outcome of one test of this program, run by another process with a text in SHARED.
  int in_another_process(const std::string& test, const std::string& shared) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command = "SHARED=" + shared + " " + program +
                                " --gtest_also_run_disabled_tests --gtest_filter=SharingContract." +
                                test + " >/dev/null";
    return std::system(command.c_str());
  }
};

TEST_F(SharingContract, ChunksAreMemoryLikeOther) {
  const Chunk chunk(driver(), 1);
  fill(chunk.at(), chunk.bytes(), 3);
  EXPECT_EQ(read(chunk.at(), 100), std::vector<unsigned char>(100, 3));
  unsigned kind = 0;
  EXPECT_OK(driver().pointer_attribute(&kind, PointerAttribute::memory_kind, chunk.at()));
  EXPECT_EQ(kind, static_cast<unsigned>(MemoryKind::device));
  unsigned is_ipc = 1;
  EXPECT_OK(driver().pointer_attribute(&is_ipc, PointerAttribute::ipc_capable, chunk.at()));
  EXPECT_EQ(is_ipc, 0U);
  AllocationHandle again = 0;
  EXPECT_OK(driver().retain_memory(&again, reinterpret_cast<void*>(chunk.at() + 4096)));
  EXPECT_OK(driver().release_memory(again));
}

TEST_F(SharingContract, ADescriptorGivesAProcessASecondMapping) {
  const Chunk chunk(driver(), 1);
  const int fd = chunk.export_it();
  ASSERT_GE(fd, 0);
  const Chunk again(driver(), chunk.bytes(), fd);
  ::close(fd);
  EXPECT_NE(again.at(), chunk.at());
  fill(chunk.at(), 4096, 7);
  EXPECT_EQ(read(again.at(), 4096), std::vector<unsigned char>(4096, 7));
}

TEST_F(SharingContract, MemoryLivesAsLongAsItsLastMapping) {
  auto chunk = std::make_unique<Chunk>(driver(), 1);
  const int fd = chunk->export_it();
  const Chunk again(driver(), chunk->bytes(), fd);
  ::close(fd);
  fill(chunk->at(), 4096, 8);
  chunk.reset();
  EXPECT_EQ(read(again.at(), 4096), std::vector<unsigned char>(4096, 8));
}

TEST_F(SharingContract, ADescriptorThatIsNoMemorysIsRefused) {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  AllocationHandle handle = 0;
  EXPECT_NE(driver().import_memory(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                   HandleKind::descriptor),
            DriverStatus::success);
  ::close(fd);
}

/// Serves the next test, in another process, which has the descriptor from its parent.
TEST_F(SharingContract, DISABLED_MapsTheDescriptor) {
  int fd = -1;
  unsigned long bytes = 0;
  ASSERT_EQ(std::sscanf(std::getenv("SHARED"), "%d,%lu", &fd, &bytes), 2);
  const Chunk again(driver(), bytes, fd);
  EXPECT_EQ(read(again.at(), 4096), std::vector<unsigned char>(4096, 4));
  fill(again.at() + 4096, 4096, 6);
  unsigned kind = 0;
  EXPECT_OK(driver().pointer_attribute(&kind, PointerAttribute::memory_kind, again.at()));
  EXPECT_EQ(kind, static_cast<unsigned>(MemoryKind::device));
}

TEST_F(SharingContract, ADescriptorGivesAnotherProcessTheMemory) {
  const Chunk chunk(driver(), 1);
  fill(chunk.at(), chunk.bytes(), 4);
  const int fd = chunk.export_it();
  const int inherited = ::fcntl(fd, F_DUPFD, 0);  // not closed by exec
  ::close(fd);
  ASSERT_GE(inherited, 0);
  EXPECT_EQ(in_another_process("DISABLED_MapsTheDescriptor",
                               std::to_string(inherited) + "," + std::to_string(chunk.bytes())),
            0);
  ::close(inherited);
  // An event in the other process has said that its write has ended.
  EXPECT_EQ(read(chunk.at() + 4096, 4096), std::vector<unsigned char>(4096, 6));
  EXPECT_EQ(read(chunk.at(), 4096), std::vector<unsigned char>(4096, 4));
}

TEST_F(SharingContract, AccessIsGivenToOneGpuAfterTheOther) {
  if (!has_two_gpus()) GTEST_SKIP() << "needs two GPUs";
  int can = 0;
  EXPECT_OK(driver().can_access_peer(&can, 1, 0));
  if (can == 0) GTEST_SKIP() << "needs GPUs that reach each other";
  Chunk chunk(driver(), 1);
  const int fd = chunk.export_it();
  const Chunk far(driver(), chunk.bytes(), fd, 1);
  ::close(fd);
  chunk.allow(1);
  fill(chunk.at(), 4096, 3);  // the first may still
  Context other = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_OK(driver().push_context(other));
  const StreamHandle theirs = make_stream();
  for (const DevicePointer at : {chunk.at() + 4096, far.at() + 8192})
    EXPECT_OK(driver().set_bytes(at, 5, 4096, theirs));
  EXPECT_OK(driver().synchronize_stream(theirs));
  EXPECT_OK(driver().destroy_stream(theirs));
  EXPECT_OK(driver().pop_context(&other));
  EXPECT_OK(driver().release_context(1));
  EXPECT_EQ(read(chunk.at(), 4096), std::vector<unsigned char>(4096, 3));
  EXPECT_EQ(read(chunk.at() + 4096, 8192), std::vector<unsigned char>(8192, 5));
}

TEST_F(SharingContract, WholeChunksHaveADmaBufOrTheDriverSaysNo) {
  int can = 0, gpudirect = 0;
  EXPECT_OK(driver().device_attribute(&can, DeviceAttribute::dma_buf, 0));
  EXPECT_OK(driver().device_attribute(&gpudirect, DeviceAttribute::gpudirect_of_virtual_memory, 0));
  if (can == 0 || gpudirect == 0) GTEST_SKIP() << "this GPU gives no dma-buf";
  const DevicePointer pointer = allocate(std::size_t{4} << 20);
  int fd = -1;
  EXPECT_OK(driver().range_handle(&fd, pointer, std::size_t{4} << 20, RangeHandle::dma_buf, 0));
  EXPECT_GE(fd, 0);
  ::close(fd);
  EXPECT_NE(driver().range_handle(&fd, pointer + 1, 4096, RangeHandle::dma_buf, 0),
            DriverStatus::success);
  EXPECT_OK(driver().free(pointer));
}

/// Serves the next test, in another process.
TEST_F(SharingContract, DISABLED_OpensTheIpcHandle) {
  IpcHandle handle{};
  const std::string text = std::getenv("SHARED");
  for (std::size_t i = 0; i < handle.reserved.size(); ++i)
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  DevicePointer pointer = 0, again = 0;
  ASSERT_OK(driver().ipc_open(&pointer, handle, kIpcLazyPeerAccess));
  ASSERT_OK(driver().ipc_open(&again, handle, kIpcLazyPeerAccess));
  EXPECT_EQ(again, pointer);
  EXPECT_EQ(read(pointer, 4096), std::vector<unsigned char>(4096, 4));
  fill(pointer, 4096, 6);
  EXPECT_OK(driver().ipc_close(again));
  EXPECT_OK(driver().ipc_close(pointer));
}

TEST_F(SharingContract, AnIpcHandleOpensTheAllocationInAnotherProcess) {
  const DevicePointer pointer = allocate(4096);
  unsigned is_ipc = 0;
  EXPECT_OK(driver().pointer_attribute(&is_ipc, PointerAttribute::ipc_capable, pointer));
  EXPECT_EQ(is_ipc, 1U);
  fill(pointer, 4096, 4);
  IpcHandle handle{};
  ASSERT_OK(driver().ipc_export(&handle, pointer));
  std::string text;
  for (const char byte : handle.reserved) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  EXPECT_EQ(in_another_process("DISABLED_OpensTheIpcHandle", text), 0);
  EXPECT_EQ(read(pointer, 4096), std::vector<unsigned char>(4096, 6));
  EXPECT_OK(driver().free(pointer));
}

}  // namespace
}  // namespace weft::tests
