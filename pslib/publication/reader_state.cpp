#include "pslib/publication/reader_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "runtime/subscribe/subscriber_connect.hpp"
#include "runtime/subscribe/subscriber_socket.hpp"

namespace weft::pslib::detail {
namespace {

using wire::Ask;
using wire::Head;

/// Pause before the publisher is asked again for a publication that does not exist yet.
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

ReaderState::ReaderState(std::string name, const SubscriberSettings& settings, Deadline deadline)
    : name_(std::move(name)), address_(settings.address.text()), timeout_(settings.timeout) {
  deadline = deadline.resolve(timeout_);
  if (name_.empty() || name_.size() > Ask::kMostName || name_.find('\0') != name_.npos)
    throw_error(Code::bad_argument, "join as a subscriber",
                fmt::format("a name of {} bytes", name_.size()),
                fmt::format("1 to {} bytes without a NUL", Ask::kMostName));
  socket_ = subscribe::call(settings.address, settings.key, deadline);
  subscribe::watch_for_loss(socket_.get());
  attach(deadline);
}

void ReaderState::attach(Deadline deadline) {
  for (;;) {
    ask(wire::attach(name_));
    receive_record(head_, deadline);
    if (!wire::makes_sense(head_) || head_.kind == Head::Kind::values) fail_malformed();
    if (head_.kind == Head::Kind::end) fail(Code::peer_left, "the publisher left");
    std::vector<std::byte> rest(head_.bytes);
    receive(rest, deadline);
    if (head_.kind == Head::Kind::description) {
      auto specs = wire::decode(rest, head_.count);
      if (!specs) fail_malformed();
      specs_ = *std::move(specs);
      others_.reset();
      try {
        layout_ = std::make_shared<const PublishedLayout>(specs_);
      } catch (const Error&) {
        fail_malformed();
      }
      return;
    }
    others_ = std::string(reinterpret_cast<const char*>(rest.data()), rest.size());
    if (deadline.left() <= kPause) fail_late();
    std::this_thread::sleep_for(kPause);
  }
}

void ReaderState::receive_into(std::vector<Tensor> tensors) {
  const auto refuse = [&](Code code, const std::string& message, const std::string& hint) {
    throw Error(ErrorDetail{.code = code,
                            .operation = "receive_into",
                            .message = message,
                            .hint = hint,
                            .slot = name_});
  };
  if (version != 0 || stage_ != Stage::nothing)
    refuse(Code::bad_argument, "a version was pulled already", "call it before the first pull");
  if (tensors.size() != specs_.size())
    refuse(
        Code::mismatch,
        fmt::format("{} tensors were given, the publication has {}", tensors.size(), specs_.size()),
        "one for each of specs(), in their order");
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (lacks_host_memory(tensor))
      refuse(Code::bad_argument,
             fmt::format("tensor {} ('{}'): {}", i, specs_[i].name,
                         no_host_memory("the one given,", tensor)),
             give_host_memory(tensor));
    if (tensor.dtype() != specs_[i].dtype || tensor.shape() != specs_[i].shape || !tensor.dense())
      refuse(Code::mismatch,
             fmt::format("tensor {} ('{}') is {}{}, given was {}{}", i, specs_[i].name,
                         weft::name(specs_[i].dtype), specs_[i].shape.text(), tensor.text(),
                         tensor.dense() ? "" : " with strides"),
             "dense tensors of specs(), in their order");
  }
  in_place_ = std::move(tensors);
}

void ReaderState::prepare_buffers() {
  if (!in_place_.empty() || buffers_[0]) return;
  for (auto& buffer : buffers_)
    buffer = std::make_shared<os::Mapping>(
        os::Mapping::anonymous(std::max(layout_->buffer_bytes(), PublishedLayout::kLine)));
}

TensorPlaces ReaderState::places(std::size_t buffer) const {
  TensorPlaces places;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    places.push_back(in_place_.empty() ? buffers_[buffer]->data() + layout_->tensors()[i].offset
                                       : in_place_[i].data());
  return places;
}

Status ReaderState::pull(bool waits, Deadline deadline) noexcept {
  if (over_) return Status(over_);
  try {
    deadline = deadline.resolve(timeout_);
    prepare_buffers();
    if (stage_ == Stage::nothing) {
      ask({.kind = waits ? Ask::Kind::wait : Ask::Kind::pull, .have = version});
      asked_to_wait_ = waits;
      stage_ = Stage::head;
    } else if (asked_to_wait_ && !waits) {
      ask({.kind = Ask::Kind::hurry});
      asked_to_wait_ = false;
    }
    const std::uint64_t before = version;
    take_answer(deadline);
    // The answer belonged to an earlier call's pull, which may not bring a newer version.
    if (waits && version == before) return pull(true, deadline);
    return {};
  } catch (const Error& error) {
    if (error.code() != Code::timeout) over_ = error.status().shared_detail();
    return error.status();
  } catch (const std::exception& error) {
    return refuse(Code::exhausted, [&] {
      return ErrorDetail{
          .code = Code::exhausted, .operation = "pull", .message = error.what(), .slot = name_};
    });
  }
}

void ReaderState::take_answer(Deadline deadline) {
  while (stage_ != Stage::nothing) {
    switch (stage_) {
      case Stage::nothing:
        break;
      case Stage::head:
        take_head(deadline);
        break;
      case Stage::runs:
        take_runs(deadline);
        break;
      case Stage::part_length:
        take_part_length(deadline);
        break;
      case Stage::part:
        take_part(deadline);
        break;
    }
  }
}

void ReaderState::take_head(Deadline deadline) {
  receive_record(head_, deadline);
  if (!wire::makes_sense(head_)) fail_malformed();
  if (head_.kind == Head::Kind::end) {
    const bool left = head_.count == static_cast<std::uint32_t>(Head::End::left);
    fail(left ? Code::peer_left : Code::closed,
         fmt::format("{}; the newest version that it had is {}, this reader's",
                     left ? "the publisher left" : "the publication was closed", version));
  }
  // Changes must apply to the version that this reader has, and must not lead back.
  const bool fits = head_.from == 0 || head_.from == version;
  if (head_.kind != Head::Kind::values || !fits || head_.version < version ||
      head_.count > layout_->bytes())
    fail_malformed();
  runs_.resize(head_.count);
  stage_ = Stage::runs;
}

void ReaderState::take_runs(Deadline deadline) {
  receive(std::as_writable_bytes(std::span(runs_)), deadline);
  if (!layout_->valid(runs_) || layout_->bytes(runs_) != head_.bytes) fail_malformed();
  if (head_.version == version) return finish();
  if (in_place_.empty()) {
    if (head_.from != 0) catch_up();
    stale_ = runs_;
  } else if (!runs_.empty()) {
    whole = false;
  }
  cursor_ = RunCursor(layout_, places(1 - front_), std::move(runs_));
  if (cursor_.left() == 0) return finish();
  stage_ = Stage::part_length;
}

void ReaderState::take_part_length(Deadline deadline) {
  receive_record(part_, deadline);
  if (part_ == wire::kRevoked) {
    ++statistics.begun_anew;
    stage_ = Stage::head;
    return;
  }
  if (part_ == 0 || part_ > cursor_.left()) fail_malformed();
  part_left_ = part_;
  stage_ = Stage::part;
}

void ReaderState::take_part(Deadline deadline) {
  constexpr std::size_t kPieces = 128;
  std::array<iovec, kPieces> pieces;
  while (part_left_ > 0) {
    const std::size_t count = cursor_.next(pieces, part_left_);
    const ssize_t got = ::readv(socket_.get(), pieces.data(), static_cast<int>(count));
    if (got > 0) {
      cursor_.advance(static_cast<std::size_t>(got));
      part_left_ -= static_cast<std::size_t>(got);
      statistics.bytes_received += static_cast<std::size_t>(got);
      // Check the deadline even if data keeps arriving.
      if (cursor_.left() > 0 && deadline.left().count() <= 0) fail_late();
    } else {
      wait_or_fail(got, deadline);
    }
  }
  if (cursor_.left() == 0) return finish();
  stage_ = Stage::part_length;
}

/// Completes a version.
void ReaderState::finish() {
  stage_ = Stage::nothing;
  if (head_.version == version) return;
  ++(head_.from == 0 ? statistics.full_taken : statistics.deltas_taken);
  whole = true;
  version = head_.version;
  step = head_.step;
  if (in_place_.empty()) front_ = 1 - front_;
}

/// Copies the rows in which the back buffer differs from the front one, so that changes can be
/// received into it.
void ReaderState::catch_up() {
  const TensorPlaces from = places(front_);
  const TensorPlaces to = places(1 - front_);
  for (const RowRun& run : stale_) {
    const std::size_t offset = layout_->offset(run);
    std::memcpy(to[run.tensor] + offset, from[run.tensor] + offset, layout_->bytes(run));
  }
  statistics.bytes_copied += layout_->bytes(stale_);
}

Tensor ReaderState::tensor(const std::string& name) const {
  std::string known;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name && version > 0)
      return Tensor::wrap(places(front_)[i], specs_[i].dtype, specs_[i].shape);
    known += (known.empty() ? "" : ", ") + specs_[i].name;
  }
  throw Error(version == 0
                  ? bad_argument("tensor", "no version was pulled yet", "call pull_latest() before")
                  : bad_argument("tensor",
                                 fmt::format("publication '{}' has no tensor '{}'", name_, name),
                                 "its tensors: " + known));
}

}  // namespace weft::pslib::detail
