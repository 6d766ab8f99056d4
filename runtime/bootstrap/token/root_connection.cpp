#include "runtime/bootstrap/token/root_connection.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace weft::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 20ms;
/// First and longest pause between two attempts to reach a process that does not listen yet.
constexpr std::chrono::milliseconds kFirstPause = 50ms;
constexpr std::chrono::milliseconds kLongestPause = 1s;
/// Before the deadline, attempts follow each other at kFirstPause.
constexpr std::chrono::milliseconds kLastAttempts = 200ms;

}  // namespace

RootConnection::RootConnection(const p2p::Identity& identity, p2p::Purpose purpose)
    : identity_(identity),
      purpose_(purpose),
      ticks_(thread_, kTick, [this](std::uint64_t) { tick(); }) {
  thread_.start();
  thread_.run([this] { ticks_.start(); });
}

RootConnection::Outcome RootConnection::wait(const Find& find, Deadline deadline) {
  auto pause = kFirstPause;
  for (;;) {
    const Where where = find();
    if (where.ips.empty())
      trouble_ = where.trouble;
    else if (auto met = call(where, deadline))
      return {.met = std::move(met), .refusal = {}, .trouble = {}};
    if (refusal_) return {.met = {}, .refusal = *refusal_, .trouble = {}};
    const auto left = deadline.left();
    if (left <= kFirstPause) return {.met = {}, .refusal = {}, .trouble = trouble_};
    // A pause that would pass the deadline is cut short: the peer may listen by then.
    std::this_thread::sleep_for(
        left > kLastAttempts ? std::min<std::chrono::nanoseconds>(pause, left - kLastAttempts / 2)
                             : kFirstPause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

/// Returns when the peer has accepted or refused this process, when no process listens there, or at
/// the deadline.
std::optional<RootConnection::Met> RootConnection::call(const Where& where, Deadline deadline) {
  thread_.run([&] {
    has_no_listener_ = false;
    attempt_ = std::make_unique<p2p::ConnectAttempt>(
        thread_, identity_, p2p::ConnectAttempt::Target{.rank = 0, .purpose = purpose_}, where.port,
        where.ips,
        p2p::ConnectAttempt::Events{
            .answered =
                [this](os::Fd socket, const p2p::Handshake& own, const p2p::Handshake& server) {
                  change([&] { met_ = Met{std::move(socket), own, server}; });
                  attempt_.reset();
                },
            .short_of = [this](const Error& error) { change([&] { shortage_ = error; }); }});
    attempt_->begin();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(),
                      [this] { return met_ || refusal_ || has_no_listener_ || shortage_; });
  lock.unlock();
  thread_.run([this] { hang_up(); });
  if (shortage_) throw Error(*shortage_);
  return std::exchange(met_, std::nullopt);
}

void RootConnection::tick() {
  if (!attempt_) return;
  const bool has_no_listener = attempt_->tick().has_value();
  const std::string& refusal = attempt_->refusal();
  if (!has_no_listener && refusal.empty()) return;
  change([&] {
    has_no_listener_ = has_no_listener;
    if (!refusal.empty()) refusal_ = refusal;
  });
  hang_up();
}

/// Ends the attempt before the next one, because two at a time are not allowed.
void RootConnection::hang_up() {
  if (attempt_) trouble_ = attempt_->text();
  attempt_.reset();
}

}  // namespace weft::bootstrap
