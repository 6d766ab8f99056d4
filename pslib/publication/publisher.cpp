// The public handles of a publisher and its publications.
#include <fmt/format.h>

#include <utility>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "pslib/publication/publisher_state.hpp"
#include "pslib/table/entry.hpp"
#include "weft/publication.hpp"

namespace weft::pslib {

Publication::Publication(std::shared_ptr<detail::PublicationState> state) noexcept
    : state_(std::move(state)) {}
Publication::Publication(Publication&&) noexcept = default;

Publication& Publication::operator=(Publication&& other) noexcept {
  if (this == &other) return *this;
  const Publication former(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Publication::~Publication() {
  if (state_) state_->close();
}

Status Publication::publish(std::span<const Tensor> tensors, std::uint64_t step) noexcept {
  return state_ ? state_->publish(tensors, step) : empty_handle("Publication", "publish");
}

std::uint64_t Publication::version() const noexcept {
  return state_ ? state_->snapshots().newest() : 0;
}
PublicationStatistics Publication::statistics() const noexcept {
  return state_ ? state_->statistics() : PublicationStatistics{};
}

Publisher::Publisher(World& world, const PublisherOptions& options) {
  static_cast<void>(keep(world, "publisher"));
  constexpr int kMostSubscribers = 1 << 16;
  if (options.most_subscribers < 1 || options.most_subscribers > kMostSubscribers)
    throw_error(Code::bad_argument, "publisher",
                fmt::format("{} subscribers at most", options.most_subscribers),
                fmt::format("1 to {}", kMostSubscribers));
  state_ = control_call("publisher", [&] {
    return std::make_unique<detail::PublisherState>(
        world, options,
        read_subscriber_settings(Config::read(), options.address, options.token_file, "publisher"));
  });
}

Publisher::Publisher(Publisher&&) noexcept = default;

Publisher::~Publisher() {
  // A fork lacks the thread, and its locks may be held forever: leak the state.
  if (state_ && state_->is_fork()) (void)state_.release();
}

Publication Publisher::publication(const std::string& name, std::vector<PublishedTensor> specs,
                                   const PublicationOptions& options) {
  require_usable(state_, "Publisher", "publication");
  return control_call("publication", [&] {
    return Publication(state_->publication(name, std::move(specs), options));
  });
}

const std::string& Publisher::address() const noexcept {
  return state_ ? state_->address() : nothing<std::string>();
}
int Publisher::subscribers() const noexcept { return state_ ? state_->subscribers() : 0; }
std::uint64_t Publisher::rejected_connections() const noexcept {
  return state_ ? state_->rejected_connections() : 0;
}

Status Publisher::leave(Deadline deadline) noexcept {
  if (!is_usable(state_)) return unusable(state_, "Publisher", "leave");
  return state_->leave(deadline);
}

}  // namespace weft::pslib
