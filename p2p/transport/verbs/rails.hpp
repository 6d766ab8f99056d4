// The ports of this rank, with what each needs: its memory registered there, its completion queues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "p2p/transport/verbs/completions.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/regions.hpp"

namespace weft::p2p::verbs {

struct Rail {
  std::unique_ptr<Device> device;
  std::unique_ptr<Regions> regions;          ///< since Rails::start()
  std::unique_ptr<Completions> completions;  ///< since Rails::start()
  bool is_up = true;                         ///< as the port's events say; the progress thread's
};

/// One or several, the nearest first. Polls the completion queues of all. Thread-safe once started.
class Rails final : public Poller {
 public:
  /// At least one device.
  explicit Rails(std::vector<std::unique_ptr<Device>> devices);

  /// Makes regions and completion queues; all must outlive it. `peers`: as Completions has it.
  /// `poll_hook`: as Completions::on_poll(). Throws Error(system | exhausted); may be tried again.
  void start(LocalRank& local, ProgressThread& progress, int peers,
             const std::function<void()>& poll_hook);
  bool is_started() const noexcept { return started_; }
  /// The progress thread has stopped: ends the threads of the completion queues.
  void stop() noexcept;

  Rail& nearest() noexcept { return rails_.front(); }
  const Rail& nearest() const noexcept { return rails_.front(); }
  std::vector<Rail>& all() noexcept { return rails_; }
  const std::vector<Rail>& all() const noexcept { return rails_; }
  /// The addresses of all.
  void describe(VerbsPart& part) const noexcept;
  std::vector<VerbsAddress> addresses() const;
  const VerbsOptions& options() const noexcept { return nearest().device->options(); }

  /// Since start(), each as Completions has it, of all of them.
  bool poll() noexcept override;
  void poll_once() noexcept override;
  void catch_up() noexcept override;
  void arm() noexcept override;
  void help() noexcept;
  void drain() noexcept;
  void schedule_poll() noexcept { nearest().completions->schedule_poll(); }
  std::string binding_table() const;

 private:
  std::vector<Rail> rails_;
  bool started_ = false;
};

}  // namespace weft::p2p::verbs
