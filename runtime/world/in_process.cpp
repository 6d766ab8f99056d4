#include "runtime/world/in_process.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {

struct InProcessJob::Shared {
  Shared(int ranks, Config given, VerbsOf given_verbs, FabricsOf given_fabrics)
      : size(ranks),
        config(std::move(given)),
        verbs(std::move(given_verbs)),
        fabrics(std::move(given_fabrics)),
        values(static_cast<std::size_t>(ranks)) {}

  const int size;
  const Config config;
  const VerbsOf verbs;
  const FabricsOf fabrics;
  const std::shared_ptr<p2p::SegmentMapper> mapper = std::make_shared<p2p::SegmentMapper>();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<std::byte>> values;
  int arrived = 0;
};

namespace {

template <typename Shared>
class InProcessBootstrap final : public Bootstrap {
 public:
  InProcessBootstrap(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(rank) {}

  std::string_view name() const noexcept override { return "in-process"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return shared_->size; }
  int local_size() const noexcept override { return shared_->size; }
  int local_rank() const noexcept override { return rank_; }

  void put(std::span<const std::byte> value) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->values[static_cast<std::size_t>(rank_)].assign(value.begin(), value.end());
    ++shared_->arrived;
    shared_->changed.notify_all();
  }

  void fence(Deadline deadline) override {
    std::unique_lock lock(shared_->mutex);
    if (shared_->changed.wait_until(lock, deadline.when(),
                                    [&] { return shared_->arrived == shared_->size; }))
      return;
    std::string missing;
    int first = -1;
    for (int rank = 0; rank < shared_->size; ++rank) {
      if (!shared_->values[static_cast<std::size_t>(rank)].empty()) continue;
      missing += fmt::format("{}rank {}", first < 0 ? "" : ", ", rank);
      if (first < 0) first = rank;
    }
    throw Error(ErrorDetail{.code = Code::timeout,
                            .operation = "join",
                            .message = fmt::format("never arrived: {}", missing),
                            .hint = "every rank of the job must join",
                            .rank = rank_,
                            .peer = first});
  }

  std::vector<std::byte> get(int rank) override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->values[static_cast<std::size_t>(rank)];
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const int rank_;
};

}  // namespace

InProcessJob::InProcessJob(int size, Config config, VerbsOf verbs, FabricsOf fabrics)
    : shared_(std::make_shared<Shared>(size, std::move(config), std::move(verbs),
                                       std::move(fabrics))) {}
InProcessJob::~InProcessJob() = default;

World InProcessJob::join(int rank) {
  return WorldAccess::make(
      shared_->config, {.bootstrap = std::make_unique<InProcessBootstrap<Shared>>(shared_, rank),
                        .mapper = shared_->mapper,
                        .fabrics = shared_->fabrics,
                        .verbs = shared_->verbs ? shared_->verbs(rank) : nullptr});
}

void run_ranks(int size, const std::function<void(World&)>& body, const Config& config,
               const InProcessJob::VerbsOf& verbs, const InProcessJob::FabricsOf& fabrics) {
  InProcessJob job(size, config, verbs, fabrics);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        World world = job.join(rank);
        body(world);
        // A rank that ends early must not look dead to the others.
        world.leave().or_throw();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace weft
