#include "runtime/dataflow/execute/publications.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/edges.hpp"

namespace weft::dataflow {

std::string publication_name(const std::string& executor, const Graph& part, TensorId root) {
  constexpr std::size_t kLongest = 200;
  return fmt::format("{}/view{} {}:{}", executor, root.node, part.node(root.node).name, root.output)
      .substr(0, kLongest);
}

std::string release_name(const std::string& executor, std::size_t edge) {
  return fmt::format("{}/release {}", executor, edge);
}

Publication::Publication(World& world, const PublishedSpec& spec)
    : slot_(world.expose_published(spec)) {
  filling_ = slot_.next().value();
  is_filling_ = true;
  if (spec.depth == 1) only_ = filling_;
}

void Publication::add_release(World& world, std::size_t edge, const std::string& name) {
  releases_[edge] = Signal::expose(world, name);
}

Result<Tensor> Publication::next() noexcept {
  if (is_filling_) return filling_;
  Result<Tensor> buffer = slot_.next(Deadline::after({}));
  if (!buffer.ok())
    return altered(buffer.status(), [](ErrorDetail& detail) {
      if (detail.code != Code::timeout) return;
      detail.code = Code::flow_overrun;
      detail.hint = "the plan proves that no rank views it: report this";
    });
  filling_ = *buffer;
  is_filling_ = true;
  return filling_;
}

Result<Tensor> Publication::buffer() noexcept {
  const std::lock_guard lock(mutex_);
  if (slot_.spec().depth == 1) return only_;
  return next();
}

Result<bool> Publication::publish(std::uint64_t version, const Tensor& tensor,
                                  std::uint64_t& copied) noexcept {
  const std::lock_guard lock(mutex_);
  if (version_ >= version) return true;
  // The newest is all that readers can view, and some have not viewed the one before.
  if (std::ranges::any_of(releases_,
                          [&](const auto& of) { return of.second.value() + 1 < version; }))
    return false;
  const Result<Tensor> buffer = next();
  if (!buffer.ok()) return buffer.status();
  if (tensor.data() != buffer->data() && tensor.bytes() > 0) {
    std::memcpy(buffer->data(), tensor.data(), tensor.bytes());
    copied += tensor.bytes();
  }
  if (Status status = slot_.publish(); !status.ok()) return status;
  is_filling_ = false;
  version_ = version;
  return true;
}

bool Publication::is_released(std::size_t edge, std::uint64_t version) const noexcept {
  const auto found = releases_.find(edge);
  return found == releases_.end() || found->second.value() >= version;
}

Publications::Publications(World& world, const Plan& plan, const std::string& executor) {
  const Graph& part = plan.parts[static_cast<std::size_t>(world.rank())].graph;
  std::set<TensorId> viewed;
  for (const Edge& edge : plan.edges)
    if (edge.kind == EdgeKind::viewed && edge.from == world.rank())
      viewed.insert(published_root(plan, edge));
  for (const TensorId root : viewed) {
    PublishedSpec spec;
    spec.name = publication_name(executor, part, root);
    spec.dtype = part.type(root).dtype;
    spec.shape = Shape{part.type(root).shape.shape().elements()};
    spec.depth = keeps_memory(part, root) ? 1 : 2;
    all_[root] = std::make_unique<Publication>(world, spec);
  }
}

Publication* Publications::find(TensorId root) const noexcept {
  const auto found = all_.find(root);
  return found == all_.end() ? nullptr : found->second.get();
}

}  // namespace weft::dataflow
