#include "p2p/message/unseen_failures.hpp"

#include <new>

#include "base/formatted.hpp"

namespace weft::p2p::message {
namespace {

stats::Operation operation_of(const ErrorDetail& detail) noexcept {
  return detail.operation == "send" ? stats::Operation::send : stats::Operation::recv;
}

}  // namespace

Status UnseenFailures::keep(const Status& why) noexcept {
  if (!is_of_the_caller(why.code())) return why;
  std::shared_ptr<UnseenFailure> failure;
  try {
    failure = std::make_shared<UnseenFailure>(why.detail(), local_.stats);
  } catch (const std::bad_alloc&) {
    return why;
  }
  failure->row.show({.operation = operation_of(*failure),
                     .peer = failure->peer,
                     .code = why.code(),
                     .text = failure->message});
  {
    const std::lock_guard lock(mutex_);
    if (!is_kept_.exchange(true)) since_ = Clock::now();
    is_logged_ = is_logged_ && failure_ && failure_->message == failure->message;
    failure_ = failure;
  }
  local_.progress.turn_soon();
  return Status(std::shared_ptr<const ErrorDetail>(std::move(failure)));
}

void UnseenFailures::look_at(const Status& outcome) noexcept {
  if (outcome.ok() || !is_kept()) return;
  const std::lock_guard lock(mutex_);
  if (!failure_ || failure_.get() != outcome.shared_detail().get()) return;
  failure_->see();
  failure_.reset();
  is_kept_ = is_logged_ = false;
}

void UnseenFailures::serve() noexcept {
  if (!is_kept()) return;
  const std::lock_guard lock(mutex_);
  if (!failure_ || is_logged_) return;
  if (Clock::now() - since_ < kGrace)
    local_.progress.turn_soon();
  else
    log();
}

void UnseenFailures::finish() noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_ && !is_logged_) log();
}

void UnseenFailures::log() noexcept {
  is_logged_ = true;
  local_.log->warn(Subsystem::slot, "{}; the program has not looked at the request",
                   text_or_empty([this] { return failure_->text(); }));
}

}  // namespace weft::p2p::message
