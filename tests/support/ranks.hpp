// Jobs whose ranks are threads of the test: their settings, the forms of starting them, a meeting
// point of their ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>

#include "base/config.hpp"
#include "runtime/world/in_process.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/soon.hpp"
#include "weft/world.hpp"

namespace weft::tests {

/// Waits end soon enough for a stuck test to say where it is stuck; small chunks keep many short
/// jobs quick.
inline Config settings() {
  return Config().with(Setting::timeout, "20s").with(Setting::arena_chunk, "4m");
}

/// Runs `body` as every rank of a job of `ranks` ranks.
inline void run_on(int ranks, const Config& config, const std::function<void(World&)>& body) {
  run_ranks(ranks, body, config);
}
inline void run_on(int ranks, const std::function<void(World&)>& body) {
  run_on(ranks, settings(), body);
}

/// Runs `first` as rank 0 and `second` as rank 1 of a job of two.
inline void run_pair(const std::function<void(World&)>& first,
                     const std::function<void(World&)>& second, const Config& config = settings()) {
  run_on(2, config, [&](World& world) { (world.rank() == 0 ? first : second)(world); });
}

/// Runs a job of two: rank 0 exposes the slot, rank 1 attaches to it.
inline void run_owner_and_writer(const SlotSpec& spec,
                                 const std::function<void(World&, Slot&)>& owner,
                                 const std::function<void(World&, RemoteSlot&)>& writer,
                                 const Config& config = settings()) {
  run_pair(
      [&](World& world) {
        Slot slot = world.expose(spec);
        owner(world, slot);
      },
      [&](World& world) {
        RemoteSlot remote = world.attach(0, spec);
        writer(world, remote);
      },
      config);
}

/// Runs a job of two: rank 0 exposes the published slot, rank 1 attaches to it.
inline void run_publisher_and_reader(const PublishedSpec& spec,
                                     const std::function<void(World&, PublishedSlot&)>& publisher,
                                     const std::function<void(World&, PublishedReader&)>& reader,
                                     const Config& config = settings()) {
  run_pair(
      [&](World& world) {
        PublishedSlot slot = world.expose_published(spec);
        publisher(world, slot);
      },
      [&](World& world) {
        PublishedReader remote = world.attach_published(0, spec);
        reader(world, remote);
      },
      config);
}

/// A barrier of all ranks of a job, without weft. If a rank has failed and does not come, the
/// others' wait ends with an exception.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}

  void wait() {
    std::unique_lock lock(mutex_);
    const auto round = round_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++round_;
      everybody_.notify_all();
      return;
    }
    if (!everybody_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; }))
      throw std::runtime_error("another rank did not come to the meeting");
  }

 private:
  std::mutex mutex_;
  std::condition_variable everybody_;
  const int ranks_;
  int arrived_ = 0;
  int round_ = 0;
};

}  // namespace weft::tests
