// The contract with the driver: streams that are captured into graphs.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

class CaptureContract : public OnDriver {
 protected:
  GraphExec instantiate(Graph graph) {
    GraphExec executable = nullptr;
    EXPECT_OK(driver().instantiate_graph(&executable, graph, 0));
    EXPECT_OK(driver().destroy_graph(graph));
    return executable;
  }
  void begin(CaptureMode mode = CaptureMode::thread_local_) {
    EXPECT_OK(driver().begin_capture(stream(), mode));
  }
  Graph end() {
    Graph graph = nullptr;
    EXPECT_OK(driver().end_capture(stream(), &graph));
    return graph;
  }
  CaptureStatus status() {
    CaptureStatus status{};
    EXPECT_OK(driver().capture_status(stream(), &status));
    return status;
  }
};

TEST_F(CaptureContract, NothingHappensBeforeALaunchAndAllAtEach) {
  const DevicePointer pointer = allocate(64);
  fill(pointer, 64, 1);
  begin();
  EXPECT_EQ(status(), CaptureStatus::active);
  EXPECT_OK(driver().set_bytes(pointer, 2, 64, stream()));
  const GraphExec graph = instantiate(end());
  EXPECT_EQ(status(), CaptureStatus::none);
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 1));
  for (int round = 0; round < 3; ++round) {
    EXPECT_OK(driver().launch_graph(graph, stream()));
    EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 2));
    fill(pointer, 64, 1);
  }
  EXPECT_OK(driver().destroy_graph_exec(graph));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(CaptureContract, EventsTakeOtherStreamsIn) {
  const DevicePointer pointer = allocate(128);
  const StreamHandle other = make_stream();
  const Event fork = make_event(), join = make_event();
  begin();
  EXPECT_OK(driver().set_bytes(pointer, 2, 64, stream()));
  EXPECT_OK(driver().record_event(fork, stream()));
  EXPECT_OK(driver().wait_event(other, fork, 0));
  EXPECT_OK(driver().copy(pointer + 64, pointer, 64, other));
  EXPECT_OK(driver().record_event(join, other));
  EXPECT_OK(driver().wait_event(stream(), join, 0));
  EXPECT_OK(driver().set_bytes(pointer, 3, 64, stream()));
  const GraphExec graph = instantiate(end());
  EXPECT_OK(driver().launch_graph(graph, stream()));
  std::vector<unsigned char> expected(64, 3);
  expected.resize(128, 2);
  EXPECT_EQ(read(pointer, 128), expected);
  EXPECT_OK(driver().destroy_graph_exec(graph));
  for (const Event event : {fork, join}) EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(CaptureContract, AGraphKeepsAUserObjectUntilItIsGone) {
  const DevicePointer pointer = allocate(64);
  std::atomic<int> gone{0};
  begin();
  CaptureStatus status{};
  Graph captured = nullptr;
  EXPECT_OK(driver().capture_info(stream(), &status, nullptr, &captured, nullptr, nullptr));
  EXPECT_EQ(status, CaptureStatus::active);
  UserObject object = nullptr;
  const auto forget = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  EXPECT_OK(driver().create_user_object(&object, &gone, forget, 1, kUserObjectNoDestructorSync));
  EXPECT_OK(driver().retain_user_object(captured, object, 1, kGraphUserObjectMove));
  EXPECT_OK(driver().set_bytes(pointer, 2, 64, stream()));
  const GraphExec graph = instantiate(end());
  EXPECT_OK(driver().launch_graph(graph, stream()));
  EXPECT_EQ(read(pointer, 64), std::vector<unsigned char>(64, 2));
  EXPECT_EQ(gone, 0) << "the executable graph keeps it too";
  EXPECT_OK(driver().destroy_graph_exec(graph));
  // A driver may tell of it on a thread of its own.
  for (int i = 0; gone == 0 && i < 5000; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(gone, 1);
  EXPECT_OK(driver().free(pointer));
}

TEST_F(CaptureContract, AStreamThatDoesNotComeBackSpoilsTheGraph) {
  const DevicePointer pointer = allocate(64);
  const StreamHandle other = make_stream();
  const Event fork = make_event();
  begin();
  EXPECT_OK(driver().record_event(fork, stream()));
  EXPECT_OK(driver().wait_event(other, fork, 0));
  EXPECT_OK(driver().set_bytes(pointer, 3, 64, other));
  Graph graph = nullptr;
  EXPECT_EQ(driver().end_capture(stream(), &graph), DriverStatus::capture_unjoined);
  EXPECT_OK(driver().destroy_event(fork));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(pointer));
}

TEST_F(CaptureContract, WordsAndHostFunctionsRepeatWithTheSameValues) {
  Pinned<std::uint32_t> words(driver(), 1024);
  static int calls;
  calls = 0;
  const auto word = [&](int i) { return std::atomic_ref<std::uint32_t>(words[i * 16]); };
  const auto at = [&](int i) { return words.at() + static_cast<DevicePointer>(i) * 64; };
  begin();
  EXPECT_OK(driver().launch_host_function(
      stream(), [](void*) { ++calls; }, nullptr));
  EXPECT_OK(driver().write_value32(stream(), at(0), 1, kWriteValueDefault));
  EXPECT_OK(driver().wait_value32(stream(), at(1), 1, kWaitValueEqual));
  EXPECT_OK(driver().write_value32(stream(), at(1), 0, kWriteValueDefault));
  const GraphExec graph = instantiate(end());
  for (int round = 1; round <= 3; ++round) {
    EXPECT_OK(driver().launch_graph(graph, stream()));
    while (word(0).load() == 0) std::this_thread::yield();
    EXPECT_EQ(calls, round);
    EXPECT_EQ(driver().query_stream(stream()), DriverStatus::not_ready);
    word(0).store(0);
    word(1).store(1);
    EXPECT_OK(driver().synchronize_stream(stream()));
    EXPECT_EQ(word(1).load(), 0U);
  }
  EXPECT_OK(driver().destroy_graph_exec(graph));
}

TEST_F(CaptureContract, AnotherThreadsQuerySpoilsAGlobalCaptureUnlessRelaxed) {
  const Event event = make_event();
  EXPECT_OK(driver().record_event(event, stream()));
  EXPECT_OK(driver().synchronize_event(event));
  const auto query_elsewhere = [&](CaptureMode mode) {
    DriverStatus answer{};
    std::thread([&] {
      CaptureMode exchanged = mode;
      EXPECT_OK(driver().exchange_capture_mode(&exchanged));
      EXPECT_EQ(exchanged, CaptureMode::global);
      answer = driver().query_event(event);
    }).join();
    return answer;
  };
  begin(CaptureMode::global);
  EXPECT_OK(query_elsewhere(CaptureMode::relaxed));
  EXPECT_EQ(status(), CaptureStatus::active);
  EXPECT_EQ(query_elsewhere(CaptureMode::global), DriverStatus::capture_unsupported);
  EXPECT_EQ(status(), CaptureStatus::invalidated);
  Graph graph = nullptr;
  EXPECT_EQ(driver().end_capture(stream(), &graph), DriverStatus::capture_invalidated);
  EXPECT_EQ(graph, nullptr);
  if (control() != nullptr) {
    EXPECT_EQ(control()->take_complaints().size(), 1U);
  }
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(CaptureContract, AnotherThreadsQueryIsFreeBesideAThreadsOwnCapture) {
  const Event event = make_event();
  begin(CaptureMode::thread_local_);
  std::thread([&] { EXPECT_OK(driver().query_event(event)); }).join();
  EXPECT_OK(driver().destroy_graph(end()));
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(CaptureContract, ACapturedStreamCantBeWaitedFor) {
  begin(CaptureMode::relaxed);
  EXPECT_EQ(driver().synchronize_stream(stream()), DriverStatus::capture_unsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver().end_capture(stream(), &graph), DriverStatus::capture_invalidated);
}

TEST_F(CaptureContract, AnEventOfACaptureCantBeAsked) {
  const Event event = make_event();
  begin(CaptureMode::relaxed);
  EXPECT_OK(driver().record_event(event, stream()));
  CaptureMode relaxed = CaptureMode::relaxed;
  EXPECT_OK(driver().exchange_capture_mode(&relaxed));
  EXPECT_EQ(driver().query_event(event), DriverStatus::captured_event);
  EXPECT_OK(driver().exchange_capture_mode(&relaxed));
  Graph graph = nullptr;
  // Some drivers take the question as the end of the capture.
  if (driver().end_capture(stream(), &graph) == DriverStatus::success) {
    EXPECT_OK(driver().destroy_graph(graph));
  }
  EXPECT_OK(driver().destroy_event(event));
}

}  // namespace
}  // namespace weft::tests
