// The stand-in's whole state, behind one mutex.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/api/driver.hpp"
#include "tests/cuda/driver/control.hpp"

// The driver's functions, with the form that weft gives them.
namespace weft::p2p::cuda {
extern "C" {
#define STAND_IN_DECLARE(name, symbol, ...) \
  __attribute__((visibility("default"))) DriverStatus symbol(__VA_ARGS__);
WEFT_CUDA_CALLS(STAND_IN_DECLARE)
#undef STAND_IN_DECLARE
}
inline constexpr DriverStatus kOk = DriverStatus::success;
inline constexpr DriverStatus kInvalid = DriverStatus::invalid_value;
}  // namespace weft::p2p::cuda

struct CUctx_st {
  int device = 0;
  int retained = 0;
  std::set<CUctx_st*> peers{};
};

namespace weft::stand_in {

using p2p::cuda::CaptureMode;
using p2p::cuda::Context;
using p2p::cuda::StreamHandle;

struct Stream;
struct CaptureSession;

/// The end of an operation. Guarded by the machine's mutex.
struct Completion {
  bool done = false;
  Stream* stream = nullptr;  ///< valid while not done
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Gpu {
  GpuOptions options;
  CUctx_st context;
  std::atomic<std::size_t> used{
      0};  ///< memory may go with the last operation on it, without the lock
  DriverStatus fault = DriverStatus::success;
};

/// State of a thread: its current contexts, its capture mode, whom it acts for.
struct ThreadState {
  std::vector<Context> contexts{};
  CaptureMode capture_mode = CaptureMode::global;
  bool for_application = false;
  bool in_host_function = false;  ///< where every call of the driver is forbidden
  const char* call = nullptr;
  std::vector<Context> contexts_before{};
  int pushed = 0;

  ThreadState() = default;
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState();
};

/// Effects of a call on other streams and on captures.
enum class Nature : std::uint8_t {
  plain,
  waits,    ///< may wait for streams: a deadlock while one of them waits on a word
  queries,  ///< forbidden during another thread's capture, except in relaxed mode
};

class Machine {
 public:
  Machine();

  /// Takes the lock for a call, counts it, and checks what holds for all. `answer()` is success if
  /// the call may go on.
  class Call {
   public:
    Call(Machine& machine, const char* function, bool needs_context, Nature nature);
    bool stopped() const noexcept { return answer_ != DriverStatus::success; }
    DriverStatus answer() const noexcept { return answer_; }
    /// The current context's device; needs a context.
    Gpu& gpu() const noexcept;
    std::unique_lock<std::mutex> lock;

   private:
    Machine& machine_;
    DriverStatus answer_ = DriverStatus::success;
  };

  static ThreadState& thread() noexcept;
  Context current() const noexcept;
  bool is_device(int ordinal) const noexcept {
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < gpus.size();
  }
  void complain(std::string text) { complaints.push_back(std::move(text)); }
  void set_up(const Options& wanted);
  std::vector<std::string> leftovers();

  std::mutex mutex;
  std::condition_variable changed;
  Options options;
  std::deque<Gpu> gpus;
  bool initialised = false;
  std::vector<std::string> complaints;
  std::map<std::string, std::uint64_t> counts;
  struct Refusal {
    int left;
    DriverStatus status;
  };
  std::map<std::string, Refusal> refusals;
  int claimed_ends = 0;
  bool flushes_ignored = false;
  int forgotten_waits = 0;
  int forgotten_words = 0;
  std::map<std::string, Twin> twins;
  std::map<const void*, std::string> objects;  ///< what is live, for leftovers()
  std::mt19937_64 random;
  bool clock_stands = false;  ///< Control::stop_clock()
};

/// Never destroyed: threads may end after the main one.
Machine& machine();

/// Remembers an object until forget(), as a possible leftover.
template <typename T>
T* remember(T* object, const char* kind) {
  machine().objects[object] = kind;
  return object;
}
/// False: there is no such object of that kind.
bool is_live(const void* object, const char* kind);
void forget(const void* object);

/// Begins a function of the driver.
#define STAND_IN_CALL(symbol, needs_context, nature)                                        \
  ::weft::stand_in::Machine::Call call(::weft::stand_in::machine(), #symbol, needs_context, \
                                       ::weft::stand_in::Nature::nature);                   \
  if (call.stopped()) return call.answer()

}  // namespace weft::stand_in
