// A get that a stream waits for in place of the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/published/graph_gets.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "p2p/transport/reading.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// A get behind a stream. Holds nothing before its turn: the stream may have come to a graph's get
/// that is ahead of it.
struct GetBehind {
  Tensor into;
  Deadline until;
  std::unique_ptr<cuda::StreamPoint> after;  ///< null: the stream has come to the get
  cuda::StreamWait wait;
  std::uint32_t* outcome;
  GetWay way;
  bool is_over = false;  ///< it has failed, and the stream has gone on
};

/// A reader's. The application's thread adds the get `behind` a stream, or the progress thread
/// begins one of a graph, and the progress thread carries it out. Everything requires the mutex,
/// but for `is_open`, `may_begin` and what is the application's thread's.
struct StreamGet {
  enum class Stage : std::uint8_t {
    waits,  ///< for a version that was not seen
    reads,  ///< it, through the fabric
    lands,  ///< the processor copies it from where it is mapped
    copies  ///< a GPU copies it
  };

  StreamGet() = default;
  StreamGet(const StreamGet&) = delete;
  StreamGet& operator=(const StreamGet&) = delete;
  ~StreamGet() = default;

  /// Where GPUs find the outcomes of the get, and of the one before.
  struct Outcomes {
    Outcomes() = default;
    Outcomes(const Outcomes&) = delete;
    Outcomes& operator=(const Outcomes&) = delete;
    ~Outcomes() {
      if (gpu && !gpu->forked()) gpu->words_in_use()->give_back(words);
    }
    std::uint32_t* next() const { return gpu->words_in_use()->at(words[count % words.size()]); }

    std::shared_ptr<cuda::Gpu> gpu{};    ///< whose words these are
    std::vector<std::uint32_t> words{};  ///< two
    std::uint64_t count = 0;             ///< of the gets
  };
  /// The stream that waits.
  struct Held {
    cuda::StreamWait wait{};
    std::uint32_t* outcome = nullptr;
    std::shared_ptr<GraphCall> graph{};  ///< whose run waits instead of both; null: none
    std::uint64_t run = 0;
  };
  struct Broken {
    Status why{};
    Clock::time_point since{};
  };

  // The application's thread's.
  bool is_used = false;                 ///< a stream was given: the others take the mutex
  std::vector<std::uint32_t> chunks{};  ///< that targets lay in; 0: in none
  Outcomes outcomes{};

  std::mutex mutex{};
  std::atomic<bool> is_open{false};  ///< `behind` is there, or `is_under_way`
  std::optional<GetBehind> behind{};
  bool is_under_way = false;  ///< a get whose turn has come, or what it has left
  bool is_over = true;        ///< its outcome is known, and the stream has gone on
  Stage stage = Stage::waits;
  Tensor into{};
  Deadline until{};
  Held stream{};
  GetWay way{};

  Newest version{};
  std::uint64_t torn = 0;   ///< versions up to this one were overwritten while they were read
  bool is_held = false;     ///< the version's buffer is, and the slot's gate was entered
  bool is_reading = false;  ///< `reading` is under way
  std::size_t landed = 0;   ///< bytes
  std::unique_ptr<Reading> reading{};
  std::shared_ptr<const OwnedBlock> block{};  ///< where versions land that a GPU is to copy
  std::optional<cuda::DeviceCopy> copy{};
  Broken broken{};   ///< the path's end, whose cause is not known yet
  Status failure{};  ///< the application is to be told

  std::unique_ptr<GraphGets> graphs{};  ///< null: no graph gets
  std::atomic<bool> may_begin{false};   ///< runs of graphs

  /// Whether a get waits for its stream, or for its turn behind it.
  bool will_begin() const noexcept { return behind && !behind->is_over; }
  /// Whether nothing writes a target, or will.
  bool is_settled() const noexcept { return !will_begin() && is_over && !is_reading && !copy; }
  void tell_open() noexcept { is_open.store(behind || is_under_way, std::memory_order_release); }
};

}  // namespace weft::p2p
