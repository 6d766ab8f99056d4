// The contract with the driver: streams that are captured into graphs.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

void tell_to(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*word).store(value);
}
std::uint32_t value_of(std::uint32_t& word) { return std::atomic_ref<std::uint32_t>(word).load(); }

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

/// Counts how often graphs have let go of it.
struct KeptByGraphs {
  std::atomic<int> gone{0};
  void keep(const Driver& driver, Graph graph) {
    UserObject object = nullptr;
    EXPECT_OK(driver.create_user_object(
        &object, this, [](void* kept) { ++static_cast<KeptByGraphs*>(kept)->gone; }, 1,
        kNoDestructorSync));
    EXPECT_OK(driver.retain_user_object(graph, object, 1, kMoveUserObject));
  }
  /// The driver may take its time.
  bool goes() const {
    for (int i = 0; i < 5000 && gone == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return gone == 1;
  }
};

TEST_F(CaptureContract, TellsWhichCaptureAStreamIsPartOfAndItsGraph) {
  CaptureStatus status{};
  EXPECT_OK(driver().capture_info(stream(), &status, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, CaptureStatus::none);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 2; ++i) {
    begin();
    for (int again = 0; again < 2; ++again) {
      Graph graph = nullptr;
      EXPECT_OK(
          driver().capture_info(stream(), &status, &ids.emplace_back(), &graph, nullptr, nullptr));
      EXPECT_EQ(status, CaptureStatus::active);
      EXPECT_NE(graph, nullptr);
    }
    EXPECT_OK(driver().destroy_graph(end()));
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST_F(CaptureContract, AStreamThatForksOffIsPartOfTheSameCapture) {
  const StreamHandle other = make_stream();
  const Event fork = make_event(), join = make_event();
  begin();
  EXPECT_OK(driver().record_event(fork, stream()));
  EXPECT_OK(driver().wait_event(other, fork, 0));
  std::uint64_t ids[2] = {0, 1};
  Graph graphs[2] = {};
  CaptureStatus status{};
  EXPECT_OK(driver().capture_info(stream(), &status, &ids[0], &graphs[0], nullptr, nullptr));
  EXPECT_OK(driver().capture_info(other, &status, &ids[1], &graphs[1], nullptr, nullptr));
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(graphs[0], graphs[1]);
  EXPECT_OK(driver().record_event(join, other));
  EXPECT_OK(driver().wait_event(stream(), join, 0));
  EXPECT_OK(driver().destroy_graph(end()));
  for (const Event event : {fork, join}) EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().destroy_stream(other));
}

TEST_F(CaptureContract, GraphsKeepWhatTheyWereGivenUntilAllHaveGoneAndWork) {
  Pinned<std::uint32_t> word(driver(), 1024);
  KeptByGraphs kept;
  begin();
  CaptureStatus status{};
  Graph captured = nullptr;
  EXPECT_OK(driver().capture_info(stream(), &status, nullptr, &captured, nullptr, nullptr));
  kept.keep(driver(), captured);
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  const GraphExec graph = instantiate(end());  // which destroys the graph it is of
  EXPECT_OK(driver().launch_graph(graph, stream()));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(kept.gone, 0);
  std::atomic_ref<std::uint32_t>(word[0]).store(1);
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(kept.gone, 0);
  EXPECT_OK(driver().destroy_graph_exec(graph));
  EXPECT_TRUE(kept.goes());
}

TEST_F(CaptureContract, AGraphThatIsNotToBeLetsGoOfWhatItWasGiven) {
  KeptByGraphs kept;
  begin(CaptureMode::relaxed);
  CaptureStatus status{};
  Graph captured = nullptr;
  EXPECT_OK(driver().capture_info(stream(), &status, nullptr, &captured, nullptr, nullptr));
  kept.keep(driver(), captured);
  EXPECT_EQ(driver().synchronize_stream(stream()), DriverStatus::capture_unsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver().end_capture(stream(), &graph), DriverStatus::capture_invalidated);
  EXPECT_TRUE(kept.goes());
}

TEST_F(CaptureContract, LaunchesOfOneExecutableComeOneBehindTheOther) {
  Pinned<std::uint32_t> word(driver(), 1024);
  static std::atomic<int> calls;
  calls = 0;
  const StreamHandle other = make_stream();
  begin();
  EXPECT_OK(driver().launch_host_function(
      stream(), [](void*) { ++calls; }, nullptr));
  EXPECT_OK(driver().wait_value32(stream(), word.at(), 1, kWaitValueEqual));
  const GraphExec graph = instantiate(end());
  EXPECT_OK(driver().launch_graph(graph, stream()));
  EXPECT_OK(driver().launch_graph(graph, other));
  while (calls == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(calls, 1);
  std::atomic_ref<std::uint32_t>(word[0]).store(1);
  for (const StreamHandle one : {stream(), other}) EXPECT_OK(driver().synchronize_stream(one));
  EXPECT_EQ(calls, 2);
  EXPECT_OK(driver().destroy_graph_exec(graph));
  EXPECT_OK(driver().destroy_stream(other));
}

TEST_F(CaptureContract, AHostFunctionsStoreIsSeenByTheWaitBehindIt) {
  Pinned<std::uint32_t> words(driver(), 1024);
  begin();
  // The word stands from the replay before, and the function takes it back.
  EXPECT_OK(driver().launch_host_function(
      stream(),
      [](void* all) {
        auto* const at = static_cast<std::uint32_t*>(all);
        tell_to(at, 0);
        tell_to(at + 32, value_of(at[32]) + 1);
      },
      &words[0]));
  EXPECT_OK(driver().wait_value32(stream(), words.at(), 1, kWaitValueEqual));
  EXPECT_OK(driver().write_value32(stream(), words.at() + 64, 1, kWriteValueDefault));
  const GraphExec graph = instantiate(end());
  for (int round = 0; round < 3; ++round) {
    tell_to(&words[16], 0);
    EXPECT_OK(driver().launch_graph(graph, stream()));
    while (value_of(words[32]) != static_cast<std::uint32_t>(round) + 1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(value_of(words[16]), 0U);
    tell_to(&words[0], 1);
    EXPECT_OK(driver().synchronize_stream(stream()));
  }
  EXPECT_OK(driver().destroy_graph_exec(graph));
}

/// Without an event: copies that a replay's word waits for begin once its function has run.
TEST_F(CaptureContract, OtherStreamsCopyBetweenAReplaysFunctionAndItsWait) {
  Pinned<std::uint32_t> words(driver(), 1024);
  Pinned<std::uint32_t> copied(driver(), 1024);
  const DevicePointer written = allocate(64);
  const DevicePointer read_later = allocate(64);
  const DevicePointer seen = allocate(64);
  const StreamHandle other = make_stream();
  const Event event = make_event();
  begin();
  EXPECT_OK(driver().set_bytes(written, 2, 64, stream()));
  EXPECT_OK(driver().launch_host_function(
      stream(),
      [](void* all) {
        auto* const at = static_cast<std::uint32_t*>(all);
        tell_to(at, 0);
        tell_to(at + 32, 1);
      },
      &words[0]));
  EXPECT_OK(driver().wait_value32(stream(), words.at(), 1, kWaitValueEqual));
  EXPECT_OK(driver().copy(seen, read_later, 64, stream()));
  EXPECT_OK(driver().set_bytes(written, 3, 64, stream()));
  const GraphExec graph = instantiate(end());
  for (unsigned char round = 1; round <= 3; ++round) {
    tell_to(&words[32], 0);
    copied[0] = 0;
    EXPECT_OK(driver().launch_graph(graph, stream()));
    while (value_of(words[32]) == 0) std::this_thread::yield();
    EXPECT_OK(driver().copy(copied.at(), written, 64, other));
    EXPECT_OK(driver().set_bytes(read_later, round, 64, other));
    EXPECT_OK(driver().record_event(event, other));
    while (driver().query_event(event) == DriverStatus::not_ready) std::this_thread::yield();
    EXPECT_EQ(copied[0], 0x02020202U);
    tell_to(&words[0], 1);
    EXPECT_OK(driver().synchronize_stream(stream()));
    EXPECT_EQ(read(seen, 64), std::vector<unsigned char>(64, round));
  }
  EXPECT_OK(driver().destroy_graph_exec(graph));
  EXPECT_OK(driver().destroy_event(event));
  EXPECT_OK(driver().destroy_stream(other));
  for (const DevicePointer pointer : {written, read_later, seen}) EXPECT_OK(driver().free(pointer));
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
