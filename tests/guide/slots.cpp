#include <algorithm>
#include <cstdio>
#include <vector>
#include <weft/weft.hpp>

#include "tests/guide/samples.hpp"

// [dynamic slot]
void dynamic_slot(weft::World& world) {
  const weft::SlotSpec spec{.name = "sentences",
                            .dtype = weft::DType::i32,
                            .shape = {1},  // one dimension; its size counts for nothing
                            .placement = weft::Placement::dynamic};
  if (world.rank() == 0) {
    weft::Slot slot = world.expose(spec);
    std::vector<weft::Tensor> kept;
    for (int i = 0; i < 3; ++i) {
      const weft::Arrival arrival = slot.wait().value();
      kept.push_back(arrival.tensor());  // a handle, which keeps the memory
    }
    for (const weft::Tensor& sentence : kept)
      std::printf("a sentence of %s\n", sentence.text().c_str());
  } else if (world.rank() == 1) {
    weft::RemoteSlot remote = world.attach(0, spec);
    for (const std::int64_t words : {5, 2, 11}) {
      const weft::Tensor sentence = world.allocate(spec.dtype, {words});
      std::ranges::fill(sentence.as<std::int32_t>(), 1);
      remote.put(sentence).wait().or_throw();  // rank 0 has read it
    }
  }
}
// [end]

// [published slot]
void published_slot(weft::World& world) {
  const weft::PublishedSpec spec{.name = "weights", .shape = {4}, .depth = 2};
  weft::Collectives group = weft::Collectives::open(world);
  weft::PublishedSlot slot;
  if (world.rank() == 0) {
    slot = world.expose_published(spec);
    for (int version = 1; version <= 5; ++version) {
      const weft::Tensor next = slot.next().value();  // a buffer that no reader views
      std::ranges::fill(next.as<float>(), static_cast<float>(version));
      slot.publish().or_throw();
    }
  } else {
    weft::PublishedReader reader = world.attach_published(0, spec);
    float newest = 0.0F;
    while (newest < 5.0F) {  // a reader may skip versions
      const weft::Arrival view = reader.view().value();
      newest = view.as<float>()[3];
    }
    std::printf("rank %d saw version %g\n", world.rank(), newest);
  }
  group.run(weft::barrier()).or_throw();  // the slot stays until all have read
}
// [end]

// [rendezvous]
void rendezvous(weft::World& world) {
  weft::Rendezvous exchange = weft::Rendezvous::open(world);  // every rank calls it
  if (world.rank() == 1) {
    for (std::uint64_t step = 0; step < 3; ++step) {
      const weft::Tensor tensor = world.allocate(weft::DType::i64, {2});
      std::ranges::fill(tensor.as<std::int64_t>(), static_cast<std::int64_t>(100 + step));
      exchange.send(0, "activations", step, tensor).or_throw();
    }
    exchange.serve().or_throw();  // until rank 0 has fetched all of them
  } else if (world.rank() == 0) {
    for (const std::uint64_t step : {2, 0, 1}) {  // in any order
      const weft::Received got = exchange.recv(1, "activations", step).value();
      std::printf("step %lu has %ld\n", step, got.tensor.as<std::int64_t>()[1]);
    }
  }
}
// [end]
