// Gets that are captured in graphs: each replay reads the newest version then.
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::detail {

using p2p::GraphCall;
using p2p::GraphGet;
using p2p::GraphGets;
using p2p::GraphPort;
using p2p::StreamGet;

VersionReader::ThreadsTurn::ThreadsTurn(VersionReader& reader) noexcept : reader_(reader) {
  StreamGet& get = reader_.stream_get_;
  if (get.graphs && get.graphs->calls++ == 0) take();
}

void VersionReader::ThreadsTurn::take() noexcept {
  StreamGet& get = reader_.stream_get_;
  if (!get.graphs) return;
  const std::lock_guard lock(get.mutex);
  get.graphs->thread_reads = true;
}

void VersionReader::ThreadsTurn::pass() noexcept {
  StreamGet& get = reader_.stream_get_;
  if (!get.graphs) return;
  {
    const std::lock_guard lock(get.mutex);
    get.graphs->thread_reads = false;
  }
  reader_.local_.want_service();
}

VersionReader::ThreadsTurn::~ThreadsTurn() {
  StreamGet& get = reader_.stream_get_;
  // One that began before the first capture has not been counted.
  if (get.graphs && get.graphs->calls != 0 && --get.graphs->calls == 0) pass();
}

void VersionReader::capture_get(const Tensor& into, const p2p::cuda::Capture& capture,
                                Deadline deadline, ThreadsTurn& turn) {
  p2p::check_capture(local_, "get");
  if (into.memory().is_host() || into.bytes() == 0)
    throw_error(Code::bad_argument, "get",
                into.memory().is_host()
                    ? "the stream captures a graph, and the tensor lies in host memory"
                    : "the stream captures a graph, and the tensor has no elements",
                "get into a tensor on the stream's GPU");
  const auto& gpu = capture.stream.gpu;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const std::chrono::nanoseconds patience = p2p::patience(local_, deadline);
  const p2p::cuda::ScopedRelaxation relaxed(gpu->driver());
  p2p::cuda::reap_graphs();
  end_thread_gets(until).or_throw();
  const p2p::GetWay way = prepare_stream_get(capture.stream, into, until, turn);
  StreamGet& get = stream_get_;
  if (!way.by_nic && !way.is_mapped &&
      !local_.gpus->pins().is_pinned(get.block->block().chunk).value_or(false))
    throw_error(Code::bad_argument, "get",
                "the stream captures a graph, and the driver pins no memory for copies that no "
                "thread waits for",
                "get outside of the capture");
  if (!get.graphs) {
    auto made = std::make_unique<GraphGets>([this] {
      stream_get_.may_begin.store(true, std::memory_order_release);
      local_.service_wanted.store(true, std::memory_order_release);
      local_.progress.post([] {});
    });
    const std::lock_guard lock(get.mutex);
    get.graphs = std::move(made);
  }
  const p2p::cuda::Gpu::Current current(*gpu);
  const auto call = p2p::cuda::handle_of(
      std::make_unique<GraphGet>(GraphCall::Kind::get, get.graphs->port, capture, patience));
  call->tensor = into;
  call->way = way;
  call->add_to(capture);
  stream_outcome_ = call->outcome;
}

void VersionReader::end_graph_runs() noexcept {
  StreamGet& get = stream_get_;
  std::vector<GraphPort::Run>& runs = get.graphs->runs;
  for (GraphPort::Run& run : runs) {
    if (!run.overlaps) continue;
    // The streams of all go on by the same word, so that another one may use the tensor.
    for (GraphPort::Run& other : runs)
      if (other.call == run.call) other.overlaps = true;
    if (get.stream.graph == run.call) fail_stream_get(p2p::overlap());
  }
  std::erase_if(runs, [this](const GraphPort::Run& run) {
    if (!run.overlaps && !run.until.passed()) return false;
    fail_run(run, run.overlaps ? p2p::overlap() : beyond_its_time("a replay's"));
    return true;
  });
}

void VersionReader::fail_run(const GraphPort::Run& run, const Status& why) noexcept {
  if (stream_get_.failure.ok()) stream_get_.failure = get_failure(why);
  run.call->port->end(*run.call, run.number, static_cast<std::uint32_t>(why.code()));
}

bool VersionReader::begin_graph_get() noexcept {
  StreamGet& get = stream_get_;
  if (!get.graphs) return false;
  GraphGets& all = *get.graphs;
  get.may_begin.store(false, std::memory_order_release);
  try {
    if (!all.port->take(all.runs) && get.failure.ok()) get.failure = get_failure(p2p::lost_runs());
  } catch (...) {
    get.may_begin.store(true, std::memory_order_release);
    return false;  // without memory for it, later
  }
  end_graph_runs();
  if (all.runs.empty()) return false;
  get.may_begin.store(true, std::memory_order_release);
  // The stream of a get that the thread waits for, too, may have come to this one.
  if (get.is_under_way || (all.thread_reads && !get.will_begin())) return false;
  const GraphPort::Run run = all.runs.front();
  all.runs.erase(all.runs.begin());
  const auto& call = static_cast<const GraphGet&>(*run.call);
  open_get(call.tensor, run.until, call.way);
  get.stream.graph = run.call;
  get.stream.run = run.number;
  choose_gpu();
  return true;
}

}  // namespace weft::detail
