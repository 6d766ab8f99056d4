#include "pslib/table_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pslib/refusal.hpp"

namespace weft::pslib::detail {
namespace {

std::unordered_map<std::string, std::size_t> index_names(const std::string& table,
                                                         std::span<const TensorSpec> specs) {
  if (specs.empty())
    throw Error(bad_argument("table", fmt::format("table \"{}\" has no tensors", table),
                             "list at least one TensorSpec"));
  std::unordered_map<std::string, std::size_t> indices;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].shape.elements() == 0)
      throw Error(bad_argument("table",
                               fmt::format("tensor \"{}\" of table \"{}\" has no elements: {}",
                                           specs[i].name, table, specs[i].shape.text()),
                               "leave it out, or give every dimension at least one element"));
    if (!indices.emplace(specs[i].name, i).second)
      throw Error(bad_argument(
          "table", fmt::format("table \"{}\" lists tensor \"{}\" twice", table, specs[i].name),
          "give every tensor a name of its own"));
  }
  return indices;
}

}  // namespace

TableState::TableState(World& world, const Roles& roles, const std::string& server,
                       const std::string& table, std::vector<TensorSpec> specs,
                       const Optimizer& optimizer, Deadline deadline)
    : world_(world),
      name_(table),
      specs_(std::move(specs)),
      pieces_(place(specs_, roles.servers, roles.split_bytes)),
      layout_(specs_),
      indices_(index_names(table, specs_)),
      is_first_worker_(roles.workers.front() == roles.rank) {
  check(optimizer);
  agreement_.emplace(world, slot_name(server, table, "contract"),
                     contract(roles, optimizer, specs_), deadline);

  // All slots are offered before any is waited for: two ranks wait for each other's.
  const SlotSpec gradients = published(slot_name(server, table, "gradient"), layout_.elements());
  const std::string region = slot_name(server, table, "parameters");
  if (roles.works()) worker_.emplace(world, gradients, roles);
  if (roles.serves()) shard_.emplace(world, region, roles, layout_, pieces_, optimizer);
  if (worker_) worker_->attach(world, region, roles, layout_, pieces_, deadline);
  // A rank that only serves outlives the workers, which leave one by one; it watches each by
  // itself.
  const std::vector<int> needs = worker_ ? roles.others() : std::vector<int>{};
  if (shard_) shard_->attach(world, roles, gradients, needs, deadline);
}

Tensor TableState::parameter(const std::string& name) const {
  return part(worker("parameter").parameters(), index(name, "parameter"));
}

Tensor TableState::gradient(const std::string& name) const {
  return part(worker("gradient").gradients(), index(name, "gradient"));
}

Status TableState::initialize(Deadline deadline) noexcept {
  if (Status status = must_work("initialize"); !status) return status;
  if (worker_->updated() > 0)
    return refuse(Code::bad_argument, [&] {
      return bad_argument("initialize", fmt::format("table \"{}\" has its parameters", name_),
                          "call initialize() once");
    });
  if (worker_->pushed() == 0)
    if (Status status = worker_->push_initial(is_first_worker_); !status) return status;
  if (Status status = pull(deadline); !status) return status;
  worker_->clear_gradients();
  return {};
}

Status TableState::push() noexcept {
  if (Status status = must_work("push"); !status) return status;
  return worker_->push();
}

Status TableState::pull(Deadline deadline) noexcept {
  if (Status status = must_work("pull"); !status) return status;
  if (Status status = serve_own_shard(deadline); !status) return status;
  return worker_->pull(deadline);
}

Status TableState::wait_updated(Deadline deadline) noexcept {
  if (Status status = must_work("wait_updated"); !status) return status;
  if (Status status = serve_own_shard(deadline); !status) return status;
  return worker_->wait_updated(deadline);
}

Result<ParameterView> TableState::view(const std::string& name) noexcept {
  if (Status status = refuse_fork(world_, "view"); !status) return status;
  const auto found = indices_.find(name);
  const auto is_of = [&](const Piece& piece) { return piece.tensor == found->second; };
  if (found != indices_.end() && std::ranges::count_if(pieces_, is_of) == 1)
    return view_piece(*std::ranges::find_if(pieces_, is_of));
  return refuse(Code::bad_argument, [&] {
    if (found == indices_.end()) return unknown_tensor(name, "view");
    return bad_argument("view", fmt::format("tensor \"{}\" is split over several shards", name),
                        "view its pieces with view_piece()");
  });
}

Result<ParameterView> TableState::view_piece(const Piece& piece) noexcept {
  if (Status status = must_work("view"); !status) return status;
  auto values = worker_->view(piece);
  if (!values) return values.status();
  ParameterView view;
  view.values_ = *values;
  return view;
}

std::uint64_t TableState::version() const noexcept {
  const std::uint64_t versions = worker_ ? worker_->updated() : shard_->rounds();
  return versions > 0 ? versions - 1 : 0;  // the first one is the initial parameters
}

std::size_t TableState::index(const std::string& name, const char* operation) const {
  const auto found = indices_.find(name);
  if (found == indices_.end()) throw Error(unknown_tensor(name, operation));
  return found->second;
}

ErrorDetail TableState::unknown_tensor(const std::string& name, const char* operation) const {
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs_) names.push_back(spec.name);
  return bad_argument(operation, fmt::format("table \"{}\" has no tensor \"{}\"", name_, name),
                      fmt::format("it has: {}", fmt::join(names, ", ")));
}

Tensor TableState::part(const Tensor& flat, std::size_t tensor) const {
  return flat.part(layout_.offset(tensor), specs_[tensor].shape);
}

const Worker& TableState::worker(const char* operation) const {
  must_work(operation).or_throw();
  return *worker_;
}

Status TableState::must_work(const char* operation) const noexcept {
  if (Status status = refuse_fork(world_, operation); !status) return status;
  if (worker_) return {};
  return refuse(Code::bad_argument, [&] {
    return bad_argument(operation, fmt::format("this rank only serves table \"{}\"", name_),
                        "call ParameterServer::serve() here");
  });
}

Status TableState::serve_own_shard(Deadline deadline) noexcept {
  if (!shard_ || shard_->rounds() >= worker_->pushed()) return {};
  return shard_->round(deadline);
}

}  // namespace weft::pslib::detail
