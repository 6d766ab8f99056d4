#include "p2p/transport/verbs/rails.hpp"

#include <fmt/format.h>

#include <utility>

namespace weft::p2p::verbs {

Rails::Rails(std::vector<std::unique_ptr<Device>> devices) {
  for (auto& device : devices) rails_.emplace_back().device = std::move(device);
}

void Rails::start(LocalRank& local, ProgressThread& progress, int peers,
                  const std::function<void()>& poll_hook) {
  for (Rail& rail : rails_) {
    if (rail.completions) continue;  // since an earlier try, whose posted tasks refer to it
    rail.regions =
        std::make_unique<Regions>(*rail.device, Regions::Memory{.control = local.control,
                                                                .data = local.data,
                                                                .published = local.published,
                                                                .staging = local.staging,
                                                                .adopted = local.adopted,
                                                                .gpus = &local.gpus});
    rail.completions = std::make_unique<Completions>(*rail.device, local, progress, peers);
    rail.completions->on_poll(poll_hook);
  }
  // One port's queues are polled without a detour.
  if (rails_.size() == 1)
    local.waiter.add_poller(*rails_.front().completions);
  else
    local.waiter.add_poller(*this);
  started_ = true;
}

void Rails::stop() noexcept {
  for (const Rail& rail : rails_)
    if (rail.completions) rail.completions->stop();
}

void Rails::describe(VerbsPart& part) const noexcept {
  part.port = nearest().device->address();
  for (std::size_t i = 1; i < rails_.size(); ++i) part.add(rails_[i].device->address());
}

std::vector<VerbsAddress> Rails::addresses() const {
  std::vector<VerbsAddress> addresses;
  for (const Rail& rail : rails_) addresses.push_back(rail.device->address());
  return addresses;
}

bool Rails::poll() noexcept {
  bool came = false;
  for (const Rail& rail : rails_) came = rail.completions->poll() || came;
  return came;
}

void Rails::poll_once() noexcept {
  for (const Rail& rail : rails_) rail.completions->poll_once();
}

void Rails::catch_up() noexcept {
  for (const Rail& rail : rails_) rail.completions->catch_up();
}

void Rails::arm() noexcept {
  for (const Rail& rail : rails_) rail.completions->arm();
}

void Rails::help() noexcept {
  for (const Rail& rail : rails_) rail.completions->help();
}

void Rails::drain() noexcept {
  for (const Rail& rail : rails_) rail.completions->drain();
}

std::string Rails::binding_table() const {
  if (rails_.size() == 1) return nearest().completions->binding_table();
  std::string table;
  for (const Rail& rail : rails_)
    table += fmt::format("{}{}: {}", table.empty() ? "" : "; ", rail.device->name(),
                         rail.completions->binding_table());
  return table;
}

}  // namespace weft::p2p::verbs
