// The public handles of a publisher and its publications.
#include <fmt/format.h>

#include <utility>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "pslib/publication/publisher_state.hpp"
#include "pslib/table/entry.hpp"
#include "weft/publication.hpp"

namespace weft::pslib {

Publication::Publication(std::shared_ptr<detail::PublicationState> state) noexcept
    : state_(std::move(state)) {}
Publication::Publication(Publication&&) noexcept = default;

Publication& Publication::operator=(Publication&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Publication::~Publication() {
  if (state_) state_->close();
}

Status Publication::publish(std::span<const Tensor> tensors, std::uint64_t step) noexcept {
  return state_->publish(tensors, step);
}

std::uint64_t Publication::version() const noexcept { return state_->snapshots().newest(); }
PublicationStatistics Publication::statistics() const noexcept { return state_->statistics(); }

Publisher::Publisher(World& world, const PublisherOptions& options) {
  refuse_fork(world, "publisher").or_throw();
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
  if (state_ && !refuse_fork(state_->world(), "publisher")) (void)state_.release();
}

Publication Publisher::publication(const std::string& name, std::vector<PublishedTensor> specs,
                                   const PublicationOptions& options) {
  refuse_fork(state_->world(), "publication").or_throw();
  return control_call("publication", [&] {
    return Publication(state_->publication(name, std::move(specs), options));
  });
}

const std::string& Publisher::address() const noexcept { return state_->address(); }
int Publisher::subscribers() const noexcept { return state_->subscribers(); }
std::uint64_t Publisher::rejected_connections() const noexcept {
  return state_->rejected_connections();
}

Status Publisher::leave(Deadline deadline) noexcept {
  if (Status forked = refuse_fork(state_->world(), "leave"); !forked) return forked;
  return state_->leave(deadline);
}

}  // namespace weft::pslib
