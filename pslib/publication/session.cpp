#include "pslib/publication/session.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"
#include "runtime/subscribe/subscriber_socket.hpp"

namespace weft::pslib {
namespace {

using wire::Ask;
using wire::Head;

/// Requests handled before other subscribers get their turn.
constexpr int kAsksAtATime = 8;

std::vector<std::byte> end_record(Head::End how) {
  return record({.kind = Head::Kind::end, .count = static_cast<std::uint32_t>(how)});
}

}  // namespace

Session::Session(p2p::ProgressThread& thread, os::Fd socket, const Events& events)
    : events_(events), socket_(thread, std::move(socket), EPOLLIN, [this](std::uint32_t happened) {
        on_ready(happened);
      }) {
  subscribe::watch_for_loss(socket_.get());
}

Session::~Session() {
  if (!publication_) return;
  set_waiting(false);
  publication_->counts.subscribers.fetch_sub(1);
}

template <typename Act>
void Session::guarded(const Act& act) noexcept {
  try {
    act();
  } catch (const std::exception& error) {
    // End only this session: other subscribers may still be served.
    end(error.what());
  }
}

void Session::on_ready(std::uint32_t happened) {
  guarded([&] {
    if ((happened & EPOLLOUT) != 0 && answer_) go_on();
    if ((happened & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !has_ended_) read_asks();
  });
}

void Session::read_asks() {
  for (int i = 0; i < kAsksAtATime && !has_ended_; ++i) {
    switch (in_.read(socket_.get(), sizeof(Ask))) {
      case p2p::ExactRead::State::incomplete:
        return;
      case p2p::ExactRead::State::closed:
        return end("");
      case p2p::ExactRead::State::failed:
        return end(errno == ECONNRESET ? "" : os::words(errno));
      case p2p::ExactRead::State::complete:
        on_ask(in_.take<Ask>());
    }
  }
}

void Session::on_ask(const Ask& ask) {
  if (ask.kind == Kind::hurry) {
    // One hurry is allowed per wait; the wait's answer may be on its way already.
    if (!std::exchange(may_hurry_, false)) return end("it sent a hurry request without a wait");
    if (asked_ != Kind::wait || answer_) return;
    asked_ = Kind::pull;
    return answer_values();
  }
  if (answer_ || asked_ != Kind::attach) return end("it sent a request before the last answer");
  if (ask.kind == Kind::attach) return on_attach(ask);
  const bool is_known = ask.kind == Kind::pull || ask.kind == Kind::wait;
  if (!is_known || !publication_ || ask.have > sent_) return end("it sent an invalid request");
  asked_ = ask.kind;
  may_hurry_ = asked_ == Kind::wait;
  have_ = ask.have;
  answer_values();
}

void Session::on_attach(const Ask& ask) {
  const auto name = ask.attached_name();
  if (!name || publication_) return end("it sent an invalid request");
  publication_ = events_.find(*name);
  if (!publication_ && is_leaving_) return say_end(Head::End::left);
  if (!publication_) {
    const std::string names = events_.names().substr(0, wire::kMostText);
    return begin(Answer(record({.kind = Head::Kind::unknown, .bytes = names.size()},
                               std::as_bytes(std::span(names)))));
  }
  publication_->counts.subscribers.fetch_add(1);
  const auto specs = wire::encode(publication_->specs());
  begin(Answer(record({.kind = Head::Kind::description,
                       .count = static_cast<std::uint32_t>(publication_->specs().size()),
                       .bytes = specs.size()},
                      specs)));
}

/// Answers a pull or wait if there is something for it.
void Session::answer_values() {
  Snapshots& snapshots = publication_->snapshots();
  set_waiting(true);
  const std::uint64_t newest = snapshots.newest();
  if (newest > have_) {
    auto offer = snapshots.offer(have_);
    sent_ = offer.lease.version;
    return begin(Answer(snapshots, std::move(offer)));
  }
  if (is_leaving_ || publication_->is_closed())
    return say_end(is_leaving_ ? Head::End::left : Head::End::closed);
  if (asked_ == Kind::pull && newest > 0)
    begin(Answer(record({.kind = Head::Kind::values, .version = newest, .from = newest})));
}

void Session::look() {
  guarded([this] { look_again(); });
}

void Session::look_again() {
  if (answer_ || has_ended_ || !publication_) return;
  if (asked_ != Kind::attach) return answer_values();
  const bool is_over = is_leaving_ || publication_->is_closed();
  // A subscriber without the newest version gets it with its next request, and the end after that.
  if (is_over && sent_ == publication_->snapshots().newest())
    say_end(is_leaving_ ? Head::End::left : Head::End::closed);
}

void Session::leave() {
  is_leaving_ = true;
  // One that has not subscribed yet does so, or learns of the end by its next request.
  guarded([this] { look_again(); });
}

void Session::say_left() noexcept {
  if (answer_ || has_ended_) return;
  const Head head{.kind = Head::Kind::end, .count = static_cast<std::uint32_t>(Head::End::left)};
  (void)p2p::send_record(socket_.get(), head);
}

void Session::say_end(Head::End how) {
  is_last_ = true;
  begin(Answer(end_record(how)));
}

void Session::set_waiting(bool waits) {
  if (waits == is_waiting_) return;
  is_waiting_ = waits;
  publication_->counts.waiting.fetch_add(waits ? 1 : -1);
}

void Session::begin(Answer answer) {
  if (publication_) set_waiting(false);
  answer_.emplace(std::move(answer));
  go_on();
}

void Session::go_on() {
  const Answer::State state = answer_->send(socket_.get());
  switch (state) {
    case Answer::State::blocked:
    case Answer::State::more:
      return socket_.change(EPOLLIN | EPOLLOUT);
    case Answer::State::broken:
      return end("");
    case Answer::State::revoked:
      publication_->counts.revoked.fetch_add(1);
      answer_.reset();
      return answer_values();
    case Answer::State::done:
      return on_sent();
  }
}

void Session::on_sent() {
  if (answer_->is_of_values()) {
    auto& counts = publication_->counts;
    (answer_->is_full() ? counts.full_sent : counts.deltas_sent).fetch_add(1);
    (answer_->is_full() ? counts.full_bytes : counts.delta_bytes).fetch_add(answer_->bytes());
  }
  answer_.reset();
  asked_ = Kind::attach;
  if (is_last_) {
    ::shutdown(socket_.get(), SHUT_WR);
    return end("");
  }
  socket_.change(EPOLLIN);
  look_again();
}

void Session::end(const std::string& why) {
  if (std::exchange(has_ended_, true)) return;
  socket_.change(0);
  events_.ended(why);
}

}  // namespace weft::pslib
