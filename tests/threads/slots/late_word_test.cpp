// A put that fails with its path tells how its peer ended, though the peer's word is heard later.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "p2p/transport/channel.hpp"
#include "p2p/transport/ending.hpp"
#include "p2p/transport/local_rank.hpp"
#include "tests/support/ranks.hpp"
#include "tests/toy_fabric/toy_fabric.hpp"

namespace weft::tests {
namespace {

/// A path whose puts stay under way until it fails.
class FailingChannel final : public p2p::Channel {
 public:
  FailingChannel(std::unique_ptr<p2p::Channel> inner, p2p::PathCounters& counts,
                 const std::atomic<bool>& failed)
      : Channel(p2p::FabricKind::loopback, counts), inner_(std::move(inner)), failed_(failed) {}
  Status put(p2p::PutWork& work) noexcept override {
    work.posted = 1;
    work.source_is_free = false;
    return {};
  }
  std::optional<Status> poll_put(std::uint64_t) noexcept override {
    if (!failed_) return std::nullopt;
    return Status(ErrorDetail{
        .code = Code::path_failed, .operation = "path", .message = "it was closed", .peer = 0});
  }
  void get(p2p::Get& get) noexcept override { inner_->get(get); }
  void put_word(p2p::RemoteMemory word, std::uint64_t value, p2p::Notify how) noexcept override {
    inner_->put_word(word, value, how);
  }
  void notify() noexcept override { inner_->notify(); }
  void send(std::span<const std::byte> message) override { inner_->send(message); }
  Result<p2p::RemoteMemory> resolve(const p2p::MemoryRef& ref) noexcept override {
    return inner_->resolve(ref);
  }
  bool export_region(std::uint32_t chunk) override { return inner_->export_region(chunk); }
  std::byte* map(p2p::RemoteMemory memory) noexcept override { return inner_->map(memory); }

 private:
  const std::unique_ptr<p2p::Channel> inner_;
  const std::atomic<bool>& failed_;
};

/// Between a fabric and the mesh of rank 1: its path to rank 0 fails when the test says so.
class FailingPath final : public p2p::FabricEvents {
 public:
  FailingPath(p2p::LocalRank& local, p2p::FabricEvents& mesh) : local_(local), mesh_(mesh) {}

  /// The path fails at once; the mesh hears of rank 0's SIGTERM and its end later.
  void fail(std::chrono::milliseconds until_known) {
    failed_ = true;
    local_.ring();
    std::this_thread::sleep_for(until_known);
    local_.progress.post([this] {
      mesh_.message(0,
                    p2p::as_bytes(p2p::EndingMessage{.cause = {}, .signal = SIGTERM, .status = 0}));
      mesh_.lost(0, Status(ErrorDetail{.code = Code::peer_failed, .message = "it was closed"}));
    });
  }

  void connected(int rank, std::unique_ptr<p2p::Channel> channel) override {
    if (rank == 0)
      channel = std::make_unique<FailingChannel>(std::move(channel),
                                                 local_.stats->path(rank).counters, failed_);
    mesh_.connected(rank, std::move(channel));
  }
  void reachable(int rank, std::unique_ptr<p2p::Channel> channel) override {
    mesh_.reachable(rank, std::move(channel));
  }
  void in_use(int rank) override { mesh_.in_use(rank); }
  void message(int rank, std::span<const std::byte> bytes) override { mesh_.message(rank, bytes); }
  void lost(int rank, const Status& why) override { mesh_.lost(rank, why); }
  void broken(int rank) override { mesh_.broken(rank); }
  void short_of(const Error& error) override { mesh_.short_of(error); }

 private:
  p2p::LocalRank& local_;
  p2p::FabricEvents& mesh_;
  std::atomic<bool> failed_{false};
};

TEST(PutOfAPathThatFails, TellsThePeersWordThoughItIsHeardLater) {
  toy::ToyNetwork network;
  std::unique_ptr<FailingPath> path;
  Meeting meeting(2);
  const auto fabrics = [&](p2p::LocalRank& local, p2p::FabricEvents& events) {
    if (local.rank == 0) return network.fabrics()(local, events);
    path = std::make_unique<FailingPath>(local, events);
    return network.fabrics()(local, *path);
  };
  const SlotSpec spec{.name = "s", .dtype = DType::i32, .shape = {1000}};
  const auto body = [&](World& world) {
    if (world.rank() == 0) {
      const Slot slot = world.expose(spec);
      meeting.wait();
      return;
    }
    RemoteSlot remote = world.attach(0, spec);
    Request request = remote.put(world.allocate(spec.dtype, spec.shape));
    ASSERT_FALSE(request.test());
    std::thread end([&] { path->fail(std::chrono::milliseconds(100)); });
    const Status status = request.wait(Deadline::after(std::chrono::seconds(5)));
    end.join();
    EXPECT_EQ(status.code(), Code::peer_failed) << status.text();
    EXPECT_NE(status.text().find("SIGTERM"), std::string::npos) << status.text();
    meeting.wait();
  };
  run_ranks(2, body, settings().with(Setting::log, "off"), {}, fabrics);
}

}  // namespace
}  // namespace weft::tests
