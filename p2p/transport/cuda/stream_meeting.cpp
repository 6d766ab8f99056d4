#include "p2p/transport/cuda/stream_meeting.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/kernels/meet_kernel.hpp"

namespace weft::p2p::cuda {
namespace {

DevicePointer address(const std::uint32_t* word) noexcept {
  return reinterpret_cast<DevicePointer>(word);
}

/// Meetings whose owners went first. Thread-safe.
class LateMeetings {
 public:
  std::mutex mutex;
  std::vector<std::shared_ptr<StreamMeeting>> all;
};

LateMeetings& late_meetings() {
  static auto* const all = new LateMeetings;
  return *all;
}

}  // namespace

/// Puts the operations of one run on a stream, in order.
class StreamMeeting::OnStream {
 public:
  OnStream(StreamMeeting& meeting, const char* operation, StreamHandle stream)
      : meeting_(meeting),
        driver_(meeting.gpu_->driver()),
        operation_(operation),
        stream_(stream),
        kernel_(meeting.gpu_->kernels().find(kernels::kMeetKernel)) {}

  void begin(bool is_captured) {
    check(driver_.launch_host_function(stream_, is_captured ? &begin_in_graph : &begin_call,
                                       &meeting_),
          "cuLaunchHostFunc");
  }
  /// Resets the own words `reset`, and sets those of the others that `of` finds.
  template <typename Of>
  void tell(std::uint32_t* reset, const Of& of) {
    kernels::MeetParameters launch{.ended = meeting_.outcome(),
                                   .own = reset,
                                   .partners = {},
                                   .count = static_cast<std::uint32_t>(meeting_.members())};
    for (std::size_t r = 0; r < meeting_.members(); ++r)
      if (r != meeting_.me_) launch.partners[r] = of(meeting_.partners_[r]) + meeting_.me_;
    void* parameters[] = {&launch};
    check(driver_.launch(kernel_, 1, 1, 1, kernels::kMostPartners, 1, 1, 0, stream_, parameters,
                         nullptr),
          "cuLaunchKernel");
  }
  void await(const std::uint32_t* words) {
    for (std::size_t r = 0; r < meeting_.members(); ++r)
      if (r != meeting_.me_)
        check(driver_.wait_value32(stream_, address(words + r), 1, kWaitValueGreaterOrEqual),
              "cuStreamWaitValue32");
  }
  void say(Step step) {
    check(driver_.write_value32(stream_, address(meeting_.words_ + kStep),
                                static_cast<std::uint32_t>(step), kWriteValueDefault),
          "cuStreamWriteValue32");
  }
  void work(const PeerReduction& reduction) {
    PeerReduction one = reduction;
    one.launch.ended = meeting_.outcome();
    check(launch_reduction(driver_, one, stream_), "cuLaunchKernel");
  }

 private:
  void check(DriverStatus status, const char* function) const {
    meeting_.gpu_->check(status, operation_, function);
  }

  StreamMeeting& meeting_;
  const Driver& driver_;
  const char* const operation_;
  const StreamHandle stream_;
  const Function kernel_;
};

StreamMeeting::StreamMeeting(std::shared_ptr<Gpu> gpu, std::shared_ptr<const OwnedBlock> words,
                             std::vector<std::uint32_t*> partners,
                             std::vector<std::shared_ptr<const PinnedMapping>> pins, std::size_t me,
                             std::function<void()> wake)
    : gpu_(std::move(gpu)),
      block_(std::move(words)),
      words_(reinterpret_cast<std::uint32_t*>(block_->data())),
      partners_(std::move(partners)),
      pins_(std::move(pins)),
      me_(me),
      wake_(std::move(wake)) {}

void StreamMeeting::reset(std::uint32_t* words, std::size_t members) noexcept {
  // First, so that a rank that reads the rest knows that the use before has ended.
  store(words + kUse, use_of(words) + 1);
  store(words + kStep, 0);
  store(words + kOutcome, 0);
  for (std::size_t i = 0; i < 2 * members; ++i) store(words + kFirst + i, 0);
}

void StreamMeeting::put_on(const char* operation, StreamHandle stream, bool is_captured,
                           std::span<const PeerReduction> work) {
  OnStream run(*this, operation, stream);
  if (is_captured) {
    retain(operation, stream);
  } else {
    const StreamWords::NoneBegins none_begins;  // that is, this one neither
    queued_.fetch_add(1);
  }
  try {
    run.begin(is_captured);
  } catch (...) {
    if (!is_captured) queued_.fetch_sub(1);
    throw;
  }
  try {
    run.tell(done(words_), [this](std::uint32_t* words) { return ready(words); });
    run.await(ready(words_));
    run.say(Step::working);
    for (const PeerReduction& reduction : work) run.work(reduction);
    run.tell(ready(words_), [this](std::uint32_t* words) { return done(words); });
    run.await(done(words_));
    run.say(Step::none);
  } catch (...) {
    try {
      run.say(Step::none);
    } catch (...) {
      is_lost_ = true;
    }
    throw;
  }
}

void StreamMeeting::retain(const char* operation, StreamHandle stream) {
  const Driver& driver = gpu_->driver();
  CaptureStatus status{};
  Graph graph = nullptr;
  gpu_->check(driver.capture_info(stream, &status, nullptr, &graph, nullptr, nullptr), operation,
              "cuStreamGetCaptureInfo");
  UserObject object = nullptr;
  const auto forget = [](void* meeting) {
    static_cast<StreamMeeting*>(meeting)->graphs_.fetch_sub(1);
  };
  gpu_->check(driver.create_user_object(&object, this, forget, 1, kNoDestructorSync), operation,
              "cuUserObjectCreate");
  graphs_.fetch_add(1);
  const DriverStatus kept = driver.retain_user_object(graph, object, 1, kMoveUserObject);
  if (kept != DriverStatus::success) (void)driver.release_user_object(object, 1);
  gpu_->check(kept, operation, "cuGraphRetainUserObject");
}

void StreamMeeting::begin(bool is_call) noexcept {
  const std::lock_guard lock(mutex_);
  const bool is_second = has_begun();
  store(words_ + kStep, static_cast<std::uint32_t>(Step::readying));
  if (is_call) queued_begun_.fetch_add(1);
  begun_.fetch_add(1);
  if (is_second && load(words_ + kOutcome) == 0) {
    // Either may reset the words of the other from now on, and end before it.
    is_misused_ = is_lost_ = true;
    end_locked(Code::bad_argument, true);
  }
  if (load(words_ + kOutcome) != 0) release_locked();
  if (wake_) wake_();
}

void StreamMeeting::end(Code why, bool tells) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_ended()) end_locked(why, tells);
  wake_ = nullptr;
}

bool StreamMeeting::close() noexcept {
  if (gpu_->forked()) return false;
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  if (is_ended()) return false;
  const bool goes_on = is_under_way();
  is_closed_ = !goes_on;
  end_locked(goes_on ? Code::cancelled : Code::closed, goes_on);
  return goes_on;
}

void StreamMeeting::end_locked(Code why, bool tells) noexcept {
  mark(words_, why);
  // Before a stream of this rank goes on: it would tell the others that it has done its share.
  if (tells)
    for (std::uint32_t* const words : partners_)
      if (words != nullptr) mark(words, why);
  is_ended_.store(true, std::memory_order_release);
  release_locked();
}

void StreamMeeting::release() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_ended()) release_locked();
}

void StreamMeeting::release_locked() noexcept {
  for (std::size_t i = 0; i < 2 * members(); ++i) store(ready(words_) + i, 1);
}

std::vector<std::size_t> StreamMeeting::awaited() const {
  std::vector<std::size_t> late;
  const Step now = step();
  if (now == Step::none) return late;
  const std::uint32_t* const words = now == Step::readying ? ready(words_) : done(words_);
  for (std::size_t r = 0; r < members(); ++r)
    if (r != me_ && load(words + r) == 0) late.push_back(r);
  return late;
}

bool StreamMeeting::works(std::size_t member) const noexcept {
  return member != me_ && load(partners_[member] + kStep) != 0;
}

void StreamMeeting::leave(std::shared_ptr<StreamMeeting> meeting) noexcept {
  if (meeting == nullptr) return;
  try {
    if (meeting->gpu_->forked()) {
      new std::shared_ptr<StreamMeeting>(std::move(meeting));  // a fork has no GPU
      return;
    }
    const std::lock_guard lock(late_meetings().mutex);
    late_meetings().all.push_back(meeting);
  } catch (...) {
    new std::shared_ptr<StreamMeeting>(std::move(meeting));  // on purpose: streams may use it
  }
}

void StreamMeeting::reap() noexcept {
  std::vector<std::shared_ptr<StreamMeeting>> unused;
  const std::lock_guard lock(late_meetings().mutex);
  for (std::shared_ptr<StreamMeeting>& late : late_meetings().all) {
    if (late->gpu_->forked() || late->is_in_use()) continue;
    try {
      unused.push_back(std::move(late));
    } catch (...) {
      break;
    }
  }
  std::erase(late_meetings().all, nullptr);
}

}  // namespace weft::p2p::cuda
