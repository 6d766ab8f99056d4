// The end of a rank's part in a job: by leave(), or because its World goes.
#include <utility>

#include "base/fail.hpp"
#include "runtime/world/world_state.hpp"

namespace weft::detail {

void WorldState::announce_leave() {
  // These must stop before the leave is announced: a rank that receives the announcement reuses the
  // memory that this rank could write.
  local.waiter.progress_registry().stop();
  rendezvous.stop();
  messages.stop();
  const bool copies = slots.end_copies();
  const bool works = collectives.end_work();
  mesh.announce_leave(copies || works);
}

WorldState::~WorldState() { end(); }

void WorldState::end() noexcept {
  if (local.forked() || phase_ == Phase::ended) return;
  local.end_calls();
  if (std::exchange(phase_, Phase::ended) == Phase::joined) {
    static_cast<void>(returned([this] {
      slots.drop_pending();
      return Status();
    }));
    announce_leave();
  }
  // When this task has run, all tasks posted before it have run, the leave among them.
  local.progress.run([this] { process_end_.reset(); });
  local.progress.stop();
  messages.end();
  slots.end();
  // Writes the recording again, with the events since the failure.
  if (failure_seen_.empty()) return;
  // The first rank to fail may not be known as gone here; it may be this rank itself, for example.
  const Status first = mesh.first_failure();
  local.write_recording(first.ok() ? failure_seen_ : first.detail().message);
}

Status WorldState::leave(Deadline deadline) noexcept {
  const Status announced = returned([this] {
    // A rank that has received the announcement expects no more data from this rank.
    slots.drop_pending();
    if (phase_ == Phase::joined) announce_leave();
    phase_ = Phase::announced;
    return Status();
  });
  Status alone = announced.ok() ? mesh.wait_until_alone(deadline) : announced;
  local.end_calls();
  return alone;
}

}  // namespace weft::detail
