// The public handle of a reader.
#include <utility>

#include "base/control_call.hpp"
#include "base/handle.hpp"
#include "pslib/publication/reader_state.hpp"
#include "weft/publication.hpp"

namespace weft::pslib {

Reader::Reader(std::unique_ptr<detail::ReaderState> state) noexcept : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Reader Reader::join(const std::string& name, const ReaderOptions& options, Deadline deadline) {
  return control_call("join as a subscriber", [&] {
    const auto settings = read_subscriber_settings(Config::read(), options.address,
                                                   options.token_file, "join as a subscriber");
    return Reader(std::make_unique<detail::ReaderState>(name, settings, deadline));
  });
}

const std::vector<PublishedTensor>& Reader::specs() const noexcept {
  return state_ ? state_->specs() : nothing<std::vector<PublishedTensor>>();
}
void Reader::receive_into(std::vector<Tensor> tensors) {
  require_state(state_, "Reader", "receive_into");
  control_call("receive_into", [&] { state_->receive_into(std::move(tensors)); });
}
Status Reader::pull_latest(Deadline deadline) noexcept {
  return state_ ? state_->pull(false, deadline) : empty_handle("Reader", "pull_latest");
}
Status Reader::pull_newer(Deadline deadline) noexcept {
  return state_ ? state_->pull(true, deadline) : empty_handle("Reader", "pull_newer");
}
std::uint64_t Reader::version() const noexcept { return state_ ? state_->version : 0; }
std::uint64_t Reader::step() const noexcept { return state_ ? state_->step : 0; }
bool Reader::whole() const noexcept { return state_ && state_->whole; }
Tensor Reader::tensor(const std::string& name) const {
  require_state(state_, "Reader", "tensor");
  return control_call("tensor", [&] { return state_->tensor(name); });
}
ReaderStatistics Reader::statistics() const noexcept {
  return state_ ? state_->statistics : ReaderStatistics{};
}

}  // namespace weft::pslib
