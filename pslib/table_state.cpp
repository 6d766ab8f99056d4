#include "pslib/table_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/fail.hpp"
#include "base/stats/waits.hpp"
#include "pslib/table/entry.hpp"
#include "pslib/table/table_errors.hpp"

namespace weft::pslib::detail {
namespace {

std::unordered_map<std::string, std::size_t> index_names(std::span<const TensorSpec> specs) {
  std::unordered_map<std::string, std::size_t> indices;
  for (std::size_t i = 0; i < specs.size(); ++i) indices.emplace(specs[i].name, i);
  return indices;
}

}  // namespace

TableState::TableState(const World& world, const Roles& roles, const std::string& server,
                       const std::string& table, std::vector<TensorSpec> specs,
                       const TableOptions& options, const std::string& metrics, Deadline deadline)
    : world_(keep(world, "table")),
      shown_name_(server + '/' + table),
      table_(roles, server, table, std::move(specs), options),
      indices_(index_names(table_.specs)),
      insight_(world_,
               {.server = server,
                .table = table,
                .rank = world.rank(),
                .works = roles.works(),
                .serves = roles.serves()},
               metrics) {
  if (options.memory.is_gpu() && !roles.works())
    throw_error(Code::bad_argument, "table",
                fmt::format("table \"{}\" is to lie on {} here, but this rank only serves, and "
                            "shards lie in host memory",
                            table, options.memory.text()),
                "leave TableOptions::memory out where ParameterServer::works() is false");
  for (const TensorSpec& spec : table_.specs)
    bytes_ += static_cast<std::uint64_t>(spec.shape.elements()) * size_of(options.wire);
  deadline = resolved(world_, deadline);
  const stats::OuterCall call("creation", shown_name_, 0);
  agreement_.emplace(world_, table_.roles.members, table_.slot_name("contract"), table_.contract(),
                     deadline, roles.works() ? std::span<const int>() : roles.servers);
  table_.start_from(find_start(world_, table_, *agreement_, deadline));

  if (table_.is_asynchronous())
    make_asynchronous(deadline);
  else
    make_synchronous(deadline);
}

// All ranks expose their slots before any rank attaches: two ranks may attach to each other.
void TableState::make_synchronous(Deadline deadline) {
  const Roles& roles = table_.roles;
  std::unique_ptr<BspWorker> worker;
  std::unique_ptr<BspShard> shard;
  if (roles.works()) {
    push_slot_.emplace(world_, table_, deadline);
    worker = std::make_unique<BspWorker>(table_, *push_slot_);
  }
  if (roles.serves()) shard = std::make_unique<BspShard>(world_, table_);
  if (worker) worker->attach(world_, deadline);
  // A rank that only serves outlives the workers, which leave one after another. The rank watches
  // each worker separately instead of ending its waits for all.
  const std::vector<int> needs = worker ? roles.others() : std::vector<int>{};
  if (shard) shard->attach(world_, needs, deadline);
  if (worker) own_shard_ = shard.get();
  bsp_worker_ = worker.get();
  worker_ = std::move(worker);
  shard_ = std::move(shard);
}

void TableState::make_asynchronous(Deadline deadline) {
  if (table_.roles.works()) {
    push_slot_.emplace(world_, table_, deadline);
    auto worker = std::make_unique<AsyncWorker>(world_, table_, *push_slot_);
    worker->attach(world_, deadline);
    worker_ = std::move(worker);
    return;
  }
  auto server = std::make_unique<AsyncServer>(world_, table_);
  server->attach(deadline);
  shard_ = std::move(server);
}

Tensor TableState::parameter(const std::string& name) const {
  return part(push_slot("parameter").parameters(), index(name, "parameter"));
}

Tensor TableState::gradient(const std::string& name) const {
  return part(push_slot("gradient").gradients(), index(name, "gradient"));
}

Status TableState::initialize(Deadline deadline) noexcept {
  deadline = resolved(world_, deadline);
  if (Status status = must_work("initialize"); !status) return status;
  if (has_begun_)
    return refuse(Code::bad_argument, [&] {
      return bad_argument("initialize",
                          fmt::format("table \"{}\" has its parameters", table_.table),
                          "call initialize() once");
    });
  if (worker_->pushed() == 0)
    if (Status status = worker_->push_initial(deadline); !status)
      return named(std::move(status), "initialize");
  const auto await = [this](Deadline until) { return worker_->pull(until); };
  if (!worker_->has_parameters())
    if (Status status = receive("initialize", bytes_, deadline, await); !status) return status;
  Status status = push_slot_->clear_gradients(deadline);
  has_begun_ = status.ok();
  return named(std::move(status), "initialize");
}

Status TableState::push(Deadline deadline) noexcept {
  if (Status status = must_work("push"); !status) return status;
  if (Status status = must_have_begun("push"); !status) return status;
  Status status = worker_->push(resolved(world_, deadline));
  if (!status) return named(std::move(status), "push");
  insight_.pushed(table_.pushes.is_compressed() ? table_.pushes.bytes() : bytes_, 0);
  insight_.staged(push_slot_->staged().bytes, push_slot_->staged().copies);
  if (table_.pushes.is_compressed()) insight_.compressed(push_slot_->compression());
  return status;
}

Status TableState::pull(Deadline deadline) noexcept {
  return receive("pull", bytes_, deadline, [this](Deadline until) { return worker_->pull(until); });
}

Status TableState::push_pull(Deadline deadline) noexcept {
  deadline = resolved(world_, deadline);
  if (Status status = push(deadline); !status) return status;
  return pull(deadline);
}

Status TableState::wait_updated(Deadline deadline) noexcept {
  constexpr auto kOperation = "wait_updated";
  // Refused ahead of the round of the own shard, which waits for the other workers.
  if (Status status = must_work(kOperation); !status) return status;
  if (Status status = must_be_in_step(kOperation); !status) return status;
  if (Status status = must_have_host_memory(kOperation); !status) return status;
  return receive(kOperation, 0, deadline,
                 [this](Deadline until) { return bsp_worker_->wait_updated(until); });
}

template <typename Wait>
Status TableState::receive(const char* operation, std::uint64_t bytes, Deadline deadline,
                           const Wait& wait) noexcept {
  if (Status status = must_work(operation); !status) return status;
  // The first push carries the initial parameters and is not a step.
  const std::uint64_t pushed = worker_->pushed();
  const stats::OuterCall call(operation, shown_name_, pushed == 0 ? 0 : pushed - 1);
  const std::uint64_t since = TableInsight::now();
  deadline = resolved(world_, deadline);
  Status status = serve_own_shard(deadline);
  if (status) status = wait(deadline);
  if (status)
    insight_.pulled(bytes, 0, since);
  else
    insight_.waited(since);
  insight_.reached(worker_->version());
  insight_.staged(push_slot_->staged().bytes, push_slot_->staged().copies);
  const bool has_gone = status.code() == Code::peer_left || status.code() == Code::closed;
  return named(has_gone ? with_the_dead(status) : status, operation);
}

Status TableState::named(Status status, const char* operation) const noexcept {
  return in_words_of_tables(std::move(status), operation, table_.table, table_.slot_name(""),
                            table_.roles);
}

Status TableState::with_the_dead(const Status& status) const noexcept {
  // A server that can't go on without others that died leaves in order.
  for (const int server : table_.roles.servers) {
    const Status dead = world_.alive(std::span(&server, 1));
    if (dead.code() != Code::peer_failed) continue;
    return refuse(Code::peer_failed, [&] {
      ErrorDetail detail = dead.detail();
      detail.operation = status.detail().operation;
      detail.message += "; later " + status.detail().message;
      return detail;
    });
  }
  return status;
}

Result<ParameterView> TableState::view(const std::string& name) noexcept {
  if (Status status = weft::over(world_, "view"); !status) return status;
  const auto found = indices_.find(name);
  const auto is_of = [&](const ShardPiece& piece) { return piece.tensor == found->second; };
  if (found != indices_.end() && std::ranges::count_if(table_.pieces, is_of) == 1)
    return view_piece(*std::ranges::find_if(table_.pieces, is_of));
  return refuse(Code::bad_argument, [&] {
    if (found == indices_.end()) return unknown_tensor(name, "view");
    return bad_argument("view", fmt::format("tensor \"{}\" is split over several shards", name),
                        "view its pieces with view_piece()");
  });
}

Result<ParameterView> TableState::view_piece(const ShardPiece& piece) noexcept {
  if (Status status = must_work("view"); !status) return status;
  if (Status status = must_be_in_step("view"); !status) return status;
  if (Status status = must_have_host_memory("view"); !status) return status;
  const auto bytes = bsp_worker_->view(piece);
  if (!bytes) return bytes.status();
  ParameterView view;
  view.bytes_ = *bytes;
  if (table_.options.wire == DType::f32)
    view.values_ = {reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float)};
  return view;
}

std::uint64_t TableState::version() const noexcept {
  return worker_ ? worker_->version() : shard_->version();
}

TableStatistics TableState::statistics() const {
  return shard_ ? shard_->statistics() : TableStatistics{};
}

std::size_t TableState::index(const std::string& name, const char* operation) const {
  const auto found = indices_.find(name);
  if (found == indices_.end()) throw Error(unknown_tensor(name, operation));
  return found->second;
}

ErrorDetail TableState::unknown_tensor(const std::string& name, const char* operation) const {
  std::vector<std::string> names;
  for (const TensorSpec& spec : table_.specs) names.push_back(spec.name);
  return bad_argument(operation,
                      fmt::format("table \"{}\" has no tensor \"{}\"", table_.table, name),
                      fmt::format("it has: {}", fmt::join(names, ", ")));
}

Tensor TableState::part(const Tensor& flat, std::size_t tensor) const {
  return flat.part(table_.layout.offset(tensor), table_.specs[tensor].shape);
}

const TableWorker& TableState::worker(const char* operation) const {
  must_work(operation).or_throw();
  return *worker_;
}

const PushSlot& TableState::push_slot(const char* operation) const {
  must_work(operation).or_throw();
  return *push_slot_;
}

Status TableState::must_be_in_step(const char* operation) const noexcept {
  if (bsp_worker_ != nullptr) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(
        operation, "this table's shards go on while workers compute",
        "call pull(); only the parameters of a bsp table without replicas are read where they lie");
  });
}

Status TableState::must_have_host_memory(const char* operation) const noexcept {
  const Memory memory = push_slot_->parameters().memory();
  if (memory.is_host()) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(operation,
                        fmt::format("the parameters of table \"{}\" lie on {} here, and views are "
                                    "of host memory",
                                    table_.table, memory.text()),
                        "call pull(), and use parameter() on the GPU");
  });
}

// A pull may have ended what an initialize() that has failed began: but for its end, the gradients
// of the first worker still hold the first parameters.
Status TableState::must_have_begun(const char* operation) const noexcept {
  if (has_begun_ || !worker_->has_parameters()) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(operation,
                        fmt::format("initialize() of table \"{}\" has failed, and its gradients "
                                    "are not zeros yet",
                                    table_.table),
                        "call initialize() again");
  });
}

Status TableState::must_work(const char* operation) const noexcept {
  if (Status status = weft::over(world_, operation); !status) return status;
  if (worker_) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(operation, fmt::format("this rank only serves table \"{}\"", table_.table),
                        "call ParameterServer::serve() here");
  });
}

Status TableState::serve_own_shard(Deadline deadline) noexcept {
  if (own_shard_ == nullptr || own_shard_->rounds() >= worker_->pushed()) return {};
  Status status = own_shard_->round(deadline);
  show(*own_shard_, 0, insight_);
  return status;
}

}  // namespace weft::pslib::detail
