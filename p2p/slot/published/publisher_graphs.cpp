// Versions that captured graphs publish: each replay copies what the tensor holds then.
#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/publisher.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::detail {

using p2p::GraphCall;
using p2p::GraphPort;
using p2p::GraphPublishes;
using p2p::StreamPublishes;

void Publisher::capture_publish(const p2p::cuda::Capture& capture, Deadline deadline) {
  p2p::check_capture(local_, "publish");
  if (!is_copied())
    throw_error(Code::bad_argument, "publish",
                gpu_ ? "the stream captures a graph, and the slot has no elements"
                     : "the stream captures a graph, and versions are filled in host memory, in "
                       "buffers that take turns",
                "fill them on a GPU: PublishedSpec::memory");
  const auto& gpu = capture.stream.gpu;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const std::chrono::nanoseconds patience = p2p::patience(local_, deadline);
  const p2p::cuda::ScopedRelaxation relaxed(gpu->driver());
  p2p::cuda::reap_graphs();
  prepare_stream(capture.stream, until);
  if (!local_.gpus->pins().is_pinned(buffers_->block().chunk).value_or(false))
    throw_error(Code::bad_argument, "publish",
                "the stream captures a graph, and the driver pins no memory for copies that no "
                "thread waits for",
                "publish outside of the capture");
  end_failed_copy(until);
  if (!streams_.graphs) {
    auto made = std::make_unique<GraphPublishes>([this] {
      wants_serving_.store(true, std::memory_order_release);
      local_.service_wanted.store(true, std::memory_order_release);
      local_.progress.post([] {});
    });
    const std::lock_guard lock(streams_.mutex);
    streams_.graphs = std::move(made);
  }
  const p2p::cuda::Gpu::Current current(*gpu);
  const auto call = p2p::cuda::handle_of(std::make_unique<GraphCall>(
      GraphCall::Kind::publish, streams_.graphs->port, capture, patience));
  call->tensor = gpu_->tensor;
  call->add_to(capture);
  const std::lock_guard lock(streams_.mutex);
  if (filling_) give_back_buffer();
}

void Publisher::end_failed_copy(Deadline until) {
  if (!gpu_->behind) return;
  const p2p::cuda::StreamPoint former = [&] {
    const p2p::cuda::Gpu::Current current(*gpu_->behind);
    return p2p::cuda::StreamPoint({gpu_->behind, streams_.own->of(gpu_->behind)}, "publish",
                                  nullptr);
  }();
  if (!p2p::wait_for_device(
          local_, [&] { return former.poll(); }, until, [] { return stats::WaitAbout{}; }))
    throw_error(Code::timeout, "publish", "the copy of a call that has failed still goes on",
                "the same call again goes on");
  gpu_->behind = nullptr;
}

void Publisher::give_back_buffer() noexcept {
  const std::uint64_t buffer = *filling_;
  filling_.reset();
  // A copy that goes on there is ahead of those of graphs, which go on the same stream.
  if (gpu_->copy) {
    gpu_->copy.reset();
    gpu_->copies_go_on = true;
  }
  if (spec_.flow != Flow::credits || newest_.version == 0 || buffer != newest_.buffer ||
      !gpu_->is_newest_whole)
    return;
  words_.version(buffer).store(newest_.version, std::memory_order_release);
  wake_readers();
}

bool Publisher::graph_copies_go_on() noexcept {
  const auto lock = lock_streams();
  return streams_.graphs && std::exchange(streams_.graphs->copies_go_on, false);
}

bool Publisher::begin_graph_publishes() noexcept {
  GraphPublishes& all = *streams_.graphs;
  try {
    if (!all.port->take(all.runs)) streams_.fail(publish_failure(p2p::lost_runs()));
  } catch (...) {
    return false;  // without memory for it, later
  }
  bool is_news = end_overlapping_runs();
  std::size_t begun = 0;
  while (begun < all.runs.size() && begin_run(all.runs[begun])) ++begun;
  all.runs.erase(all.runs.begin(), all.runs.begin() + static_cast<std::ptrdiff_t>(begun));
  // As next() ends.
  const Status needed = all.runs.empty() ? Status() : needs_.status();
  const std::size_t late = std::erase_if(all.runs, [&](const GraphPort::Run& run) {
    if (needed.ok() && !run.until.passed()) return false;
    fail_run(run, needed.ok() ? no_buffer() : publish_failure(needed));
    return true;
  });
  return begun + late != 0 || is_news;
}

bool Publisher::end_overlapping_runs() noexcept {
  std::vector<GraphPort::Run>& runs = streams_.graphs->runs;
  bool any = false;
  for (GraphPort::Run& run : runs) {
    if (!run.overlaps) continue;
    any = true;
    for (GraphPort::Run& other : runs)
      if (other.call == run.call) other.overlaps = true;
    // The streams of all go on by the same word, so that another one may write the tensor.
    for (StreamPublishes::Version& version : streams_.versions)
      if (version.graph == run.call) {
        version.is_late = true;
        version.end_run(static_cast<std::uint32_t>(Code::bad_argument));
      }
  }
  if (any)
    std::erase_if(runs, [&](const GraphPort::Run& run) {
      if (run.overlaps) fail_run(run, publish_failure(p2p::overlap()));
      return run.overlaps;
    });
  return any;
}

bool Publisher::begin_run(const GraphPort::Run& run) noexcept {
  std::optional<std::uint64_t> buffer;
  if (spec_.flow == Flow::credits) {
    buffer = take_any();
  } else {
    // In turn: the thread may fill the next one, or another replay.
    const std::uint64_t next = newest_.version % spec_.depth;
    if (!filling_ && !streams_.will_publish() && !streams_.uses(next)) buffer = next;
    if (buffer)
      if (const Status overrun = begin_turn("publish"); !overrun.ok()) {
        fail_run(run, overrun);
        return true;
      }
  }
  if (!buffer) return false;
  try {
    add_run(run, *buffer);
  } catch (...) {
    streams_.graphs->copies_go_on = true;  // a part of it, perhaps
    fail_run(run, publish_failure(caught_status()));
  }
  return true;
}

void Publisher::add_run(const GraphPort::Run& run, std::uint64_t buffer) {
  StreamPublishes::Version version{.buffer = buffer, .until = run.until, .run = run.number};
  version.graph = run.call;
  version.is_from_call = false;
  touch(buffer);
  version.copy = local_.gpus->stage("publish", std::span(&run.call->tensor, 1), buffers_,
                                    buffer * stride_, 0, nullptr);
  // Versions that are ready now, and those of graphs, are ahead of it. Those whose streams have not
  // come by may be put on a stream behind it.
  auto& versions = streams_.versions;
  auto place = versions.end();
  while (place != versions.begin()) {
    StreamPublishes::Version& before = *std::prev(place);
    if (!before.is_from_call || before.poll()) break;
    --place;
  }
  versions.insert(place, std::move(version));
}

void Publisher::fail_run(const GraphPort::Run& run, const Status& why) noexcept {
  streams_.fail(why);
  run.call->port->end(*run.call, run.number, static_cast<std::uint32_t>(why.code()));
}

Status Publisher::no_buffer() const noexcept {
  const Attachment* const attachment = pinning_reader((newest_.buffer + 1) % spec_.depth);
  if (attachment == nullptr)
    return failure(Code::timeout, "publish",
                   filling_ ? "a replay had no buffer in time: next() has given one to the thread"
                            : "a replay had no buffer in time: others fill or view them",
                   "publish what next() gave before replays, or give the slot more depth");
  return failure(Code::timeout, "publish", text_or_empty([&] {
                   return fmt::format(
                       "a replay had no buffer in time: rank {} (host {}) has not let go of one{}",
                       attachment->peer->rank, attachment->peer->host(),
                       mesh_.suspicion(attachment->peer->rank));
                 }),
                 "readers let a version go by destroying its Arrival; more depth allows more "
                 "views");
}

}  // namespace weft::detail
