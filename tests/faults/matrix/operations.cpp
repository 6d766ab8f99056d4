#include "tests/faults/matrix/operations.hpp"

#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "weft/pslib.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

SlotSpec spec_from(int rank, std::int64_t bytes, const std::string& kind) {
  return {.name = kind + " from " + std::to_string(rank),
          .dtype = DType::u8,
          .shape = {bytes},
          .depth = 2};
}

/// A slot from every rank to every rank.
class Puts final : public Operation {
 public:
  Puts(World& world, std::int64_t bytes, Placement placement) {
    const auto spec = [&](int writer) {
      SlotSpec made = spec_from(writer, bytes, placement == Placement::dynamic ? "dynamic" : "put");
      made.placement = placement;
      return made;
    };
    for (int peer = 0; peer < world.size(); ++peer) in_.push_back(world.expose(spec(peer)));
    for (int peer = 0; peer < world.size(); ++peer)
      out_.push_back(world.attach(peer, spec(world.rank())));
    tensor_ = world.allocate(DType::u8, {bytes});
  }
  Status step(std::uint64_t) override {
    std::vector<Request> puts;
    for (RemoteSlot& out : out_) puts.push_back(out.put(tensor_));
    for (Slot& in : in_)
      if (const Status status = in.wait().status(); !status.ok()) return status;
    for (Request& put : puts)
      if (const Status status = put.wait(); !status.ok()) return status;
    return {};
  }

 private:
  std::vector<Slot> in_;
  std::vector<RemoteSlot> out_;
  Tensor tensor_;
};

/// Every rank publishes, and gets what all others have published. The ranks run in step, since a
/// get would otherwise skip versions.
class Gets final : public Operation {
 public:
  Gets(World& world, std::int64_t bytes) : together_(world, 1, Placement::fixed) {
    const auto spec = [&](int owner) {
      return PublishedSpec{.name = "get from " + std::to_string(owner),
                           .dtype = DType::u8,
                           .shape = {bytes},
                           .depth = 2};
    };
    own_ = world.expose_published(spec(world.rank()));
    for (int peer = 0; peer < world.size(); ++peer)
      others_.push_back(world.attach_published(peer, spec(peer)));
    tensor_ = world.allocate(DType::u8, {bytes});
  }
  Status step(std::uint64_t number) override {
    if (const Status status = own_.next().status(); !status.ok()) return status;
    if (const Status status = own_.publish(); !status.ok()) return status;
    for (PublishedReader& other : others_)
      if (const Status status = other.get(tensor_); !status.ok()) return status;
    return together_.step(number);
  }

 private:
  Puts together_;
  PublishedSlot own_;
  std::vector<PublishedReader> others_;
  Tensor tensor_;
};

class Exchanges final : public Operation {
 public:
  Exchanges(World& world, std::int64_t bytes)
      : size_(world.size()),
        rendezvous_(Rendezvous::open(world)),
        tensor_(world.allocate(DType::u8, {bytes})) {}
  Status step(std::uint64_t number) override {
    for (int to = 0; to < size_; ++to)
      if (const Status status = rendezvous_.send(to, "w", number, tensor_); !status.ok())
        return status;
    for (int from = 0; from < size_; ++from)
      if (const Status status = rendezvous_.recv(from, "w", number).status(); !status.ok())
        return status;
    return rendezvous_.serve();
  }

 private:
  const int size_;
  Rendezvous rendezvous_;
  Tensor tensor_;
};

class PushPulls final : public Operation {
 public:
  PushPulls(World& world, std::int64_t bytes)
      : server_(world),
        table_(server_.table("model", {{"weights", {std::max<std::int64_t>(bytes / 4, 1)}}},
                             pslib::Optimizer::sgd(0.1F))) {
    for (float& value : table_.parameter("weights").as<float>()) value = 0.5F;
    table_.initialize().or_throw();
  }
  Status step(std::uint64_t) override {
    for (float& value : table_.gradient("weights").as<float>()) value = 1e-3F;
    return table_.push_pull();
  }

 private:
  pslib::ParameterServer server_;
  pslib::Table table_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(World& world, const std::string& kind,
                                          std::int64_t bytes) {
  if (kind == "put") return std::make_unique<Puts>(world, bytes, Placement::fixed);
  if (kind == "dynamic") return std::make_unique<Puts>(world, bytes, Placement::dynamic);
  if (kind == "get") return std::make_unique<Gets>(world, bytes);
  if (kind == "rendezvous") return std::make_unique<Exchanges>(world, bytes);
  if (kind == "push_pull") return std::make_unique<PushPulls>(world, bytes);
  throw std::invalid_argument("no operation is called " + kind);
}

}  // namespace weft::tests
