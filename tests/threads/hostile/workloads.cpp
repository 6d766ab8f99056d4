#include "tests/threads/hostile/workloads.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/pslib.hpp"
#include "weft/rendezvous.hpp"
#include "weft/signal.hpp"

namespace weft::tests {
namespace {

/// Reads every byte, so that AddressSanitizer or a missing page reports a bad address.
void look_at(const Tensor& tensor) {
  volatile unsigned sum = 0;
  for (std::size_t i = 0; i < tensor.bytes(); ++i)
    sum = sum + static_cast<unsigned>(tensor.data()[i]);
}

/// Keeps the first error of several calls, all of which are made.
class First {
 public:
  void take(const Status& status) {
    if (first_.ok()) first_ = status;
  }
  const Status& status() const { return first_; }

 private:
  Status first_;
};

/// Fixed, dynamic and published slots between all ranks.
class Slots final : public Workload {
 public:
  explicit Slots(World& world) : world_(world) {
    for (int peer = 0; peer < world.size(); ++peer) {
      fixed_in_.push_back(world.expose(spec("small", peer, {5})));
      large_in_.push_back(world.expose(spec("large", peer, {3000})));
      dynamic_in_.push_back(world.expose(dynamic(peer)));
    }
    own_ = world.expose_published(published(world.rank()));
    for (int peer = 0; peer < world.size(); ++peer) {
      fixed_.push_back(world.attach(peer, spec("small", world.rank(), {5})));
      large_.push_back(world.attach(peer, spec("large", world.rank(), {3000})));
      dynamic_.push_back(world.attach(peer, dynamic(world.rank())));
      readers_.push_back(world.attach_published(peer, published(peer)));
    }
  }
  Status step(std::uint64_t number) override {
    First first;
    std::vector<Request> puts;
    const Tensor five = world_.allocate(DType::f32, {5});
    const Tensor many = world_.allocate(DType::f32, {3000});
    const auto rows = static_cast<std::int64_t>(number % 7);
    const Tensor any = world_.allocate(DType::f32, {rows, 40});
    for (auto& out : fixed_) puts.push_back(out.put(five));
    for (auto& out : large_) puts.push_back(out.put(many));
    for (auto& out : dynamic_) puts.push_back(out.put(any));
    first.take(own_.next().status());
    first.take(own_.publish());
    for (auto* slots : {&fixed_in_, &large_in_, &dynamic_in_})
      for (Slot& slot : *slots) {
        const auto arrival = slot.wait();
        first.take(arrival.status());
        if (arrival.ok()) look_at(arrival->tensor());
        if (!first.status().ok()) return first.status();
      }
    for (PublishedReader& reader : readers_) {
      if (number % 2 == 0) {
        first.take(reader.get(many));
      } else {
        const auto view = reader.view();
        first.take(view.status());
        if (view.ok()) look_at(view->tensor());
      }
      if (!first.status().ok()) return first.status();
    }
    for (Request& put : puts) {
      first.take(put.wait());
      if (!first.status().ok()) return first.status();
    }
    return first.status();
  }

 private:
  static SlotSpec spec(const std::string& kind, int writer, const Shape& shape) {
    return {.name = kind + std::to_string(writer), .shape = shape, .depth = 3};
  }
  static SlotSpec dynamic(int writer) {
    SlotSpec made = spec("dynamic", writer, {0, 0});
    made.placement = Placement::dynamic;
    return made;
  }
  static PublishedSpec published(int owner) {
    return {.name = "published" + std::to_string(owner), .shape = {3000}, .depth = 3};
  }

  World& world_;
  std::vector<Slot> fixed_in_, large_in_, dynamic_in_;
  PublishedSlot own_;
  std::vector<RemoteSlot> fixed_, large_, dynamic_;
  std::vector<PublishedReader> readers_;
};

class Mail final : public Workload {
 public:
  explicit Mail(World& world) : world_(world), messages_(world) {
    for (const std::int64_t bytes : {8, 90, 3000, 200000})
      sent_.push_back(world.allocate(DType::u8, {bytes}));
    into_ = world.allocate(DType::u8, {200000});
  }
  Status step(std::uint64_t number) override {
    First first;
    std::vector<MessageRequest> requests;
    const Tensor& tensor = sent_[number % sent_.size()];
    for (int to = 0; to < world_.size(); ++to)
      requests.push_back(messages_.isend(to, number, tensor));
    for (int from = 0; from < world_.size(); ++from) {
      if (number % 3 == 0) (void)messages_.probe(from, kAnyTag);
      first.take(messages_.recv(number % 5 == 0 ? kAnySource : from, kAnyTag, into_).status());
      if (!first.status().ok()) return first.status();
    }
    first.take(messages_.wait_all(requests));
    return first.status();
  }

 private:
  World& world_;
  Messages messages_;
  std::vector<Tensor> sent_;
  Tensor into_;
};

class Keys final : public Workload {
 public:
  explicit Keys(World& world) : world_(world), rendezvous_(Rendezvous::open(world)) {}
  Status step(std::uint64_t number) override {
    First first;
    const std::string key = "key" + std::to_string(number % 3);
    const auto elements = static_cast<std::int64_t>(number / 4 % 3 * 700);
    const Tensor tensor = world_.allocate(DType::f32, {elements});
    for (int to = 0; to < world_.size(); ++to)
      first.take(rendezvous_.send(to, key, number, tensor));
    for (int from = 0; from < world_.size() && first.status().ok(); ++from) {
      const auto received = rendezvous_.recv(from, key, number);
      first.take(received.status());
      if (received.ok()) look_at(received->tensor);
    }
    first.take(rendezvous_.serve(Deadline::after(std::chrono::milliseconds(200))));
    return first.status();
  }

 private:
  World& world_;
  Rendezvous rendezvous_;
};

class Signals final : public Workload {
 public:
  explicit Signals(World& world) : own_(Signal::expose(world, "count")) {
    for (int peer = 0; peer < world.size(); ++peer)
      others_.push_back(RemoteSignal::attach(world, peer, "count"));
  }
  Status step(std::uint64_t number) override {
    First first;
    for (RemoteSignal& other : others_) {
      first.take(other.add(1));
      first.take(other.fetch_add(1).status());
    }
    first.take(own_.wait_at_least(number).status());
    return first.status();
  }

 private:
  Signal own_;
  std::vector<RemoteSignal> others_;
};

class Together final : public Workload {
 public:
  explicit Together(World& world) : group_(Collectives::open(world)) {
    for (const std::int64_t elements : {4, 512, 60000}) {
      Sizes& size = sizes_.emplace_back();
      size.one = world.allocate(DType::f32, {elements});
      size.all = world.allocate(DType::f32, {elements * world.size()});
      size.into = world.allocate(DType::f32, {elements * world.size()});
    }
  }
  Status step(std::uint64_t number) override {
    const Sizes& size = sizes_[number / 8 % sizes_.size()];
    const int root = static_cast<int>(number % static_cast<std::uint64_t>(group_.size()));
    switch (number % 8) {
      case 0:
        return group_.run(all_reduce(size.one, Reduction::sum));
      case 1:
        return group_.run(broadcast(size.one, root));
      case 2:
        return group_.run(all_gather(size.one, size.all));
      case 3:
        return group_.run(barrier());
      case 4:
        return group_.run(reduce_scatter(size.all, size.one, Reduction::max));
      case 5:
        return group_.run(all_to_all(size.all, size.into));
      case 6:
        return group_.run(gather(size.one, size.all, root));
      default:
        return group_.run(scatter(size.all, size.one, root));
    }
  }

 private:
  struct Sizes {
    Tensor one, all, into;
  };
  Collectives group_;
  std::vector<Sizes> sizes_;
};

class Dense final : public Workload {
 public:
  Dense(World& world, const pslib::Consistency& consistency)
      : server_(world,
                {.dedicated_servers = consistency.kind == pslib::Consistency::Kind::bsp ? 0 : 1}),
        table_(server_.table("model", {{"weights", {5000}}}, options(consistency))) {
    if (!server_.works()) return;
    for (float& value : table_.parameter("weights").as<float>()) value = 0.5F;
    table_.initialize().or_throw();
  }
  Status step(std::uint64_t) override {
    pslib::Table* const tables[] = {&table_};
    if (!server_.works()) return server_.serve(tables);
    for (float& value : table_.gradient("weights").as<float>()) value = 1e-3F;
    return table_.push_pull();
  }

 private:
  static pslib::TableOptions options(const pslib::Consistency& consistency) {
    pslib::TableOptions made(pslib::Optimizer::sgd(0.1F));
    made.consistency = consistency;
    return made;
  }
  pslib::ParameterServer server_;
  pslib::Table table_;
};

class Sparse final : public Workload {
 public:
  explicit Sparse(World& world)
      : server_(world, {.dedicated_servers = 1}),
        table_(server_.sparse_table("rows", options())),
        rows_(kIds * kDim) {}
  Status step(std::uint64_t number) override {
    pslib::SparseTable* const tables[] = {&table_};
    if (!server_.works()) return server_.serve({}, tables);
    std::array<std::uint64_t, kIds> ids{};
    for (std::size_t i = 0; i < kIds; ++i) ids[i] = number * 7 + i * 13 % 50;
    if (number % 2 == 0) return table_.lookup(ids, rows_);
    return table_.push(ids, rows_);
  }

 private:
  static constexpr std::size_t kDim = 4;
  static constexpr std::size_t kIds = 100;
  static pslib::SparseOptions options() {
    pslib::SparseOptions made;
    made.dim = kDim;
    made.optimizer = pslib::Optimizer::sgd(0.1F);
    made.request_rows = 16;
    made.consistency = pslib::Consistency::async();
    return made;
  }
  pslib::ParameterServer server_;
  pslib::SparseTable table_;
  std::vector<float> rows_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(World& world, const std::string& name) {
  if (name == "slots") return std::make_unique<Slots>(world);
  if (name == "messages") return std::make_unique<Mail>(world);
  if (name == "rendezvous") return std::make_unique<Keys>(world);
  if (name == "signals") return std::make_unique<Signals>(world);
  if (name == "collectives") return std::make_unique<Together>(world);
  if (name == "dense_bsp") return std::make_unique<Dense>(world, pslib::Consistency::bsp());
  if (name == "dense_async") return std::make_unique<Dense>(world, pslib::Consistency::async());
  if (name == "sparse") return std::make_unique<Sparse>(world);
  throw std::invalid_argument("no workload is called " + name);
}

}  // namespace weft::tests
