#include "publishing.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace charlm {

Publishing::Publishing(weft::World& world, const Options& options,
                       const weft::pslib::Table& table) {
  if (options.publish == 0 || world.rank() != 0) return;
  every_ = options.publish;
  std::vector<weft::pslib::PublishedTensor> specs;
  for (const auto& spec : table.specs()) {
    tensors_.push_back(table.parameter(spec.name));
    specs.push_back({.name = spec.name, .shape = spec.shape});
  }
  publisher_ = std::make_unique<weft::pslib::Publisher>(world);
  publication_ = publisher_->publication("charlm", std::move(specs));
  fmt::print("publishing every {} steps at {}\n", every_, publisher_->address());
  std::fflush(stdout);
  const auto patience = weft::Deadline::after(std::chrono::minutes(1));
  while (publisher_->subscribers() < options.readers && !patience.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Publishing::step(int step, int steps) {
  if (every_ > 0 && (step % every_ == 0 || step == steps))
    publication_->publish(tensors_, static_cast<std::uint64_t>(step)).or_throw();
}

void Publishing::finish() {
  if (every_ == 0) return;
  const auto patience = weft::Deadline::after(std::chrono::seconds(10));
  if (const weft::Status status = publisher_->leave(patience); !status)
    fmt::print("publishing: {}\n", status.text());
  const auto sent = publication_->statistics();
  fmt::print("published {} versions of {:.1f} kB; {} were sent\n", sent.version,
             static_cast<double>(sent.full_bytes) * 1e-3, sent.full_sent + sent.deltas_sent);
}

}  // namespace charlm
