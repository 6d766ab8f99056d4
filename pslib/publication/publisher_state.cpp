#include "pslib/publication/publisher_state.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/auth/exact_read.hpp"
#include "pslib/table/entry.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib::detail {

PublisherState::PublisherState(const World& world, const PublisherOptions& options,
                               const SubscriberSettings& settings)
    : world_(keep(world, "publisher")),
      log_(log_of(world_)),
      most_subscribers_(static_cast<std::size_t>(options.most_subscribers)),
      timeout_(settings.timeout),
      bell_(std::make_shared<Wakeup>()),
      acceptor_(thread_, *log_,
                {.address = settings.address,
                 .iface = settings.iface,
                 .key = settings.key,
                 .must_encrypt = settings.must_encrypt},
                [this](os::Fd& socket) { return on_came(socket); }) {
  bell_->publisher = this;
  thread_.start();
  thread_.run([this] { acceptor_.open(); });
  log_->info(Subsystem::ps, "accepting subscribers at {}", acceptor_.address());
}

PublisherState::~PublisherState() {
  {
    const std::lock_guard lock(bell_->mutex);
    bell_->publisher = nullptr;
  }
  thread_.run([this] {
    for (auto& [number, subscriber] : sessions_) subscriber.session->say_left();
  });
  thread_.stop();
}

std::shared_ptr<PublicationState> PublisherState::publication(const std::string& name,
                                                              std::vector<PublishedTensor> specs,
                                                              const PublicationOptions& options) {
  const std::lock_guard lock(mutex_);
  const auto known = publications_.find(name);
  if (known != publications_.end() && !known->second->is_closed())
    throw Error(
        ErrorDetail{.code = Code::duplicate_name,
                    .operation = "publication",
                    .message = fmt::format("this publisher has a publication '{}' already", name),
                    .hint = "another name, or let that one go first"});
  auto state = std::make_shared<PublicationState>(
      name, std::move(specs), options,
      [bell = bell_] {
        const std::lock_guard at_bell(bell->mutex);
        PublisherState* const publisher = bell->publisher;
        if (publisher != nullptr && !publisher->is_fork())
          publisher->thread_.post([publisher] { publisher->look(); });
      },
      [bell = bell_, world = std::make_shared<World>(keep(world_, "publication"))] {
        // Before the mutex, which a thread may hold that a fork does not have.
        if (Status status = weft::over(*world, "publish"); !status) return status;
        const std::lock_guard at_bell(bell->mutex);
        return bell->publisher != nullptr ? Status()
                                          : orphaned_handle("Publication", "publish", "Publisher");
      });
  publications_[name] = state;
  return state;
}

std::shared_ptr<PublicationState> PublisherState::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = publications_.find(name);
  return found == publications_.end() || found->second->is_closed() ? nullptr : found->second;
}

std::string PublisherState::names() {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const auto& [name, state] : publications_)
    if (!state->is_closed()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string PublisherState::on_came(os::Fd& socket) {
  if (is_leaving_) return "it is leaving";
  if (sessions_.size() >= most_subscribers_)
    return fmt::format("it accepts no more subscribers: {} are connected", sessions_.size());
  if (!p2p::send_record(socket.get(), std::uint16_t{0}))
    return {};  // the subscriber has disconnected already
  const int number = next_subscriber_++;
  Subscriber& subscriber = sessions_[number];
  subscriber.events = {.find = [this](const std::string& name) { return find(name); },
                       .names = [this] { return names(); },
                       .ended = [this, number](const std::string& why) { on_ended(number, why); }};
  try {
    subscriber.session = std::make_unique<Session>(thread_, std::move(socket), subscriber.events);
  } catch (const Error& error) {
    sessions_.erase(number);
    log_->warn(Subsystem::ps, "a subscriber was rejected: {}", error.what());
    return {};
  }
  subscribers_.fetch_add(1);
  log_->debug(Subsystem::ps, "subscriber {} connected; {} in all", number, subscribers());
  return {};
}

void PublisherState::on_ended(int subscriber, const std::string& why) {
  if (why.empty())
    log_->debug(Subsystem::ps, "subscriber {} disconnected", subscriber);
  else
    log_->warn(Subsystem::ps, "subscriber {} was disconnected: {}", subscriber, why);
  // The session is still executing, so destroy it later.
  thread_.post([this, subscriber] {
    sessions_.erase(subscriber);
    subscribers_.fetch_sub(1);
    const std::lock_guard lock(gone_mutex_);
    gone_.notify_all();
  });
}

/// Removes closed publications; sessions that still read one keep it alive.
void PublisherState::forget_closed() {
  std::vector<std::shared_ptr<PublicationState>> closed;  // freed without the lock
  const std::lock_guard lock(mutex_);
  std::erase_if(publications_, [&](auto& entry) {
    if (!entry.second->is_closed()) return false;
    closed.push_back(std::move(entry.second));
    return true;
  });
}

void PublisherState::look() {
  forget_closed();
  for (auto& [number, subscriber] : sessions_) subscriber.session->look();
}

Status PublisherState::leave(Deadline deadline) {
  deadline = deadline.resolve(timeout_);
  // Post and wait with a deadline: run() would wait for the thread's turn without one.
  thread_.post([this] {
    is_leaving_ = true;
    for (auto& [number, subscriber] : sessions_) subscriber.session->leave();
    const std::lock_guard lock(gone_mutex_);
    has_told_ = true;
    gone_.notify_all();
  });
  std::unique_lock lock(gone_mutex_);
  if (gone_.wait_until(lock, deadline.when(), [this] { return has_told_ && subscribers() == 0; }))
    return {};
  return Status(ErrorDetail{
      .code = Code::timeout,
      .operation = "leave",
      .message =
          fmt::format("{} subscriber(s) have not taken the newest version yet", subscribers()),
      .hint = "a longer deadline, or leave them: they keep the version that they have",
      .rank = world_.rank()});
}

}  // namespace weft::pslib::detail
