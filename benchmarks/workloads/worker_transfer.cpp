// One tensor to the other rank, which finds its largest element: by put and by view.
#include <cstring>
#include <memory>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

SlotSpec word_spec(const std::string& name) {
  return {.name = name, .dtype = DType::f32, .shape = Shape{1}, .depth = 2};
}

/// A word that one rank sends to the other.
class Told {
 public:
  Told(World& world, int from, const std::string& name) {
    if (world.rank() != from) {
      inbox_ = world.expose(word_spec(name));
      return;
    }
    word_ = world.allocate(DType::f32, Shape{1});
    outbox_ = world.attach(1 - from, word_spec(name));
  }
  void tell(float value) {
    word_.as<float>()[0] = value;
    outbox_.put(word_).wait().or_throw();
  }
  float hear() { return inbox_.wait().value().as<float>()[0]; }

 private:
  Slot inbox_;
  RemoteSlot outbox_;
  Tensor word_;
};

/// Rank 0's end: where the tensor is written, and how it is sent.
class TransferSource {
 public:
  virtual ~TransferSource() = default;
  virtual Tensor next() = 0;
  virtual void move() = 0;
};

/// Rank 1's end.
class TransferTarget {
 public:
  virtual ~TransferTarget() = default;
  virtual Arrival take() = 0;
};

class PutSource final : public TransferSource {
 public:
  PutSource(World& world, const SlotSpec& spec)
      : remote_(world.attach(1, spec)), source_(world.allocate(spec.dtype, spec.shape)) {}
  Tensor next() override { return source_; }
  void move() override { remote_.put(source_).wait().or_throw(); }

 private:
  RemoteSlot remote_;
  Tensor source_;
};

class PutTarget final : public TransferTarget {
 public:
  PutTarget(World& world, const SlotSpec& spec) : slot_(world.expose(spec)) {}
  Arrival take() override { return slot_.wait().value(); }

 private:
  Slot slot_;
};

class ViewSource final : public TransferSource {
 public:
  ViewSource(World& world, const PublishedSpec& spec) : slot_(world.expose_published(spec)) {}
  Tensor next() override { return slot_.next().value(); }
  void move() override { slot_.publish().or_throw(); }

 private:
  PublishedSlot slot_;
};

class ViewTarget final : public TransferTarget {
 public:
  ViewTarget(World& world, const PublishedSpec& spec) : reader_(world.attach_published(0, spec)) {}
  Arrival take() override { return reader_.view().value(); }

 private:
  PublishedReader reader_;
};

struct Way {
  std::string_view kind;
  std::unique_ptr<TransferSource> source;
  std::unique_ptr<TransferTarget> target;
};

Way make_way(World& world, std::string_view kind, std::size_t size) {
  const std::string name = "fig7." + std::string(kind) + "." + std::to_string(size);
  const Shape shape{static_cast<std::int64_t>(size / sizeof(float))};
  Way way{kind, nullptr, nullptr};
  if (kind == kByView) {
    const PublishedSpec spec{.name = name, .dtype = DType::f32, .shape = shape, .depth = 2};
    if (world.rank() == 0)
      way.source = std::make_unique<ViewSource>(world, spec);
    else
      way.target = std::make_unique<ViewTarget>(world, spec);
  } else {
    const SlotSpec spec{.name = name, .dtype = DType::f32, .shape = shape, .depth = 2};
    if (world.rank() == 0)
      way.source = std::make_unique<PutSource>(world, spec);
    else
      way.target = std::make_unique<PutTarget>(world, spec);
  }
  return way;
}

/// The time one processor needs for the work and for the copy, which a view avoids.
double limit_of(const Tensor& from, const Tensor& scratch, bool copies) {
  return timed([&] {
    if (copies) std::memcpy(scratch.data(), from.data(), from.bytes());
    const Tensor& seen = copies ? scratch : from;
    keep(largest(seen.as<float>().data(), seen.as<float>().size()));
  });
}

RunRow lead(World& world, Way& way, Told& count, Told& answer, std::size_t size,
            const RunOptions& options) {
  const Tensor scratch =
      world.allocate(DType::f32, Shape{static_cast<std::int64_t>(size / sizeof(float))});
  std::vector<double> limits;
  const auto transfer = [&](std::uint64_t iteration) {
    const Tensor tensor = way.source->next();
    fill_floats(tensor.as<float>().data(), tensor.as<float>().size(), iteration);
    float heard = 0;
    const double spent = timed([&] {
      way.source->move();
      heard = answer.hear();
    });
    limits.push_back(limit_of(tensor, scratch, way.kind == kByPut));
    if (options.check)
      require_data(heard == largest(tensor.as<float>().data(), tensor.as<float>().size()), size,
                   iteration);
    return spent;
  };
  const auto samples = lead_transfers(
      options.budget, [&](std::uint64_t n) { count.tell(static_cast<float>(n)); }, transfer);
  limits.erase(limits.begin(), limits.begin() + TransferCount::kWarmUp);
  return compared(size, way.kind, samples, limits);
}

void follow(Way& way, Told& count, Told& answer) {
  const auto take = [&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      const Arrival arrival = way.target->take();
      const auto elements = arrival.as<float>();
      answer.tell(largest(elements.data(), elements.size()));
    }
  };
  take(TransferCount::kWarmUp);
  take(static_cast<std::uint64_t>(count.hear()));
}

}  // namespace

std::vector<RunRow> measure_transfer(World& world, const RunOptions& options) {
  Told count(world, 0, "fig7.count");
  Told answer(world, 1, "fig7.answer");
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    for (const std::string_view kind : {kByPut, kByView}) {
      Way way = make_way(world, kind, size);
      if (world.rank() == 0)
        rows.push_back(lead(world, way, count, answer, size, options));
      else
        follow(way, count, answer);
    }
  return rows;
}

}  // namespace weft::bench
