// Edges by views: the reader loads from the producer's memory.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/fail.hpp"
#include "runtime/dataflow/execute/edge_ends.hpp"
#include "runtime/dataflow/execute/publications.hpp"
#include "runtime/dataflow/graph/edges.hpp"

namespace weft::dataflow {
namespace {

class ViewSend final : public SendEnd, private weft::detail::Condition {
 public:
  ViewSend(World& world, Publication& publication, std::size_t edge, int reader, bool keeps_memory)
      : world_(world),
        publication_(publication),
        edge_(edge),
        reader_{reader},
        is_lent_(keeps_memory) {}

  void start(const Tensor& tensor) noexcept override {
    tensor_ = tensor;
    ++version_;
    is_published_ = false;
    status_ = {};
  }

  bool is_sent() noexcept override {
    if (!status_.ok() || advance()) return true;
    // A reader that is gone lets go of nothing any more. It may have done so before it left, though
    // the slot's other readers, which have ends of their own, have not.
    const Status alive = world_.alive(reader_);
    if (alive.ok()) return false;
    if (!advance()) status_ = alive;
    return true;
  }

  Status finish(Deadline deadline) noexcept override {
    if (!is_sent()) {
      weft::detail::Condition* const own = this;
      const std::array conditions{own};
      const auto ended = wait_any(world_, {.conditions = conditions}, deadline);
      if (!ended.ok()) return ended.status();
    }
    tensor_ = {};
    return status_;
  }

  Awaited awaited() noexcept override { return static_cast<weft::detail::Condition*>(this); }
  EndCosts costs() const override {
    TransferCounters further;
    further.bytes_copied = copied_;
    return {.slot = publication_.name(), .role = Role::publishes, .further = further};
  }

 private:
  bool holds() noexcept override { return is_sent(); }

  /// True once the tensor may be written again, or has ended badly.
  bool advance() noexcept {
    if (!is_published_) {
      const Result<bool> published = publication_.publish(version_, tensor_, copied_);
      if (!published.ok()) {
        status_ = published.status();
        return true;
      }
      is_published_ = *published;
    }
    return is_published_ && (!is_lent_ || publication_.is_released(edge_, version_));
  }

  World& world_;
  Publication& publication_;
  const std::size_t edge_;
  const std::array<int, 1> reader_;
  const bool is_lent_;  ///< until its readers have let go; otherwise the next step fills another
  Tensor tensor_;
  std::uint64_t version_ = 0;
  bool is_published_ = false;
  Status status_;
  std::uint64_t copied_ = 0;
};

class ViewReceive final : public ReceiveEnd {
 public:
  ViewReceive(PublishedReader reader, const Edge& edge)
      : reader_(std::move(reader)), shape_(edge.type.shape.shape()) {}
  /// Letting go of a version is told to the producer from now on.
  void tell(RemoteSignal release) { release_ = std::move(release); }

  bool is_there() noexcept override { return reader_.ready(); }

  Result<Tensor> take(Deadline deadline) noexcept override {
    Result<Arrival> result = reader_.view(deadline);
    if (!result.ok()) return result.status();
    arrival_ = std::move(*result);
    ++version_;
    if (arrival_.sequence() != version_)
      return refuse(Code::flow_overrun, [&] {
        return error_detail(Code::flow_overrun, "view",
                            fmt::format("version {} was published before version {} was viewed",
                                        arrival_.sequence(), version_));
      });
    return returned([&]() -> Result<Tensor> { return arrival_.tensor().part(0, shape_); });
  }

  void release() noexcept override {
    arrival_.release();
    if (!release_) return;
    // Whether the producer is gone shows in the next step.
    static_cast<void>(release_->add(1));
    ++told_;
  }

  Awaited awaited() noexcept override { return &reader_; }
  EndCosts costs() const override {
    TransferCounters further;
    further.credit_writes = told_;
    return {.slot = reader_.spec().name, .role = Role::views, .further = further};
  }

 private:
  PublishedReader reader_;
  const Shape shape_;
  std::optional<RemoteSignal> release_;
  Arrival arrival_;
  std::uint64_t version_ = 0;
  std::uint64_t told_ = 0;
};

class ViewWay final : public Way {
 public:
  ViewWay(World& world, const Plan& plan, const std::string& executor, Publications& publications)
      : world_(world), plan_(plan), executor_(executor), publications_(publications) {}

  void expose(const EdgePlace& place) override {
    if (place.edge.from == world_.rank() && place.edge.needs_credits)
      publication(place.edge)
          .add_release(world_, place.index, release_name(executor_, place.index));
  }

  std::unique_ptr<SendEnd> send_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<ViewSend>(world_, publication(place.edge), place.index, place.edge.to,
                                      keeps_memory(part(place.edge), root(place.edge)));
  }

  std::unique_ptr<ReceiveEnd> receive_end(const EdgePlace& place, Deadline deadline) override {
    const Edge& edge = place.edge;
    auto end = std::make_unique<ViewReceive>(
        world_.attach_published(edge.from, publication_name(executor_, part(edge), root(edge)),
                                deadline),
        edge);
    if (edge.needs_credits)
      end->tell(
          RemoteSignal::attach(world_, edge.from, release_name(executor_, place.index), deadline));
    return end;
  }

 private:
  TensorId root(const Edge& edge) const { return published_root(plan_, edge); }
  const Graph& part(const Edge& edge) const {
    return plan_.parts[static_cast<std::size_t>(edge.from)].graph;
  }
  Publication& publication(const Edge& edge) { return *publications_.find(root(edge)); }

  World& world_;
  const Plan& plan_;
  const std::string executor_;
  Publications& publications_;
};

}  // namespace

std::unique_ptr<Way> make_view_way(World& world, const Plan& plan, const std::string& executor,
                                   Publications& publications) {
  return std::make_unique<ViewWay>(world, plan, executor, publications);
}

}  // namespace weft::dataflow
