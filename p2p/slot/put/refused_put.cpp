#include "p2p/slot/put/refused_put.hpp"

#include <fmt/format.h>

#include <new>

#include "base/formatted.hpp"
#include "p2p/slot/attach/grant.hpp"

namespace weft::p2p {
Status UnseenRefusal::keep(const Status& why, const Place& place) noexcept {
  if (!is_of_the_caller(why.code())) return why;
  std::shared_ptr<RefusedPut> refused;
  try {
    refused = std::make_shared<RefusedPut>(why.detail(), local_.stats);
  } catch (const std::bad_alloc&) {
    return why;
  }
  refused->row.show({.operation = stats::Operation::put,
                     .peer = owner_.rank,
                     .code = why.code(),
                     .slot = place.remote_id,
                     .sequence = place.sequence,
                     .text = refused->message});
  {
    const std::lock_guard lock(mutex_);
    if (!is_kept_.exchange(true)) since_ = Clock::now();
    is_logged_ = is_logged_ && refusal_ && refusal_->message == refused->message;
    refusal_ = refused;
    place_ = place;
    // A rank that has no room now may have some soon.
    if (why.code() != Code::exhausted) tell();
  }
  local_.want_service();
  return Status(std::shared_ptr<const ErrorDetail>(std::move(refused)));
}

bool UnseenRefusal::holds(const Status& status) noexcept {
  if (status.ok() || !is_kept()) return false;
  const std::lock_guard lock(mutex_);
  return refusal_ && refusal_.get() == status.shared_detail().get();
}

void UnseenRefusal::see() noexcept {
  const std::lock_guard lock(mutex_);
  if (refusal_) refusal_->see();
  refusal_.reset();
  is_kept_ = is_logged_ = false;
}

bool UnseenRefusal::serve() noexcept {
  if (!is_kept()) return false;
  const std::lock_guard lock(mutex_);
  if (!refusal_ || refusal_->seen.load()) {
    refusal_.reset();
    is_kept_ = is_logged_ = false;
    return false;
  }
  if (is_logged_) return false;
  if (Clock::now() - since_ < kGrace) {
    local_.progress.turn_soon();
    return true;
  }
  log_and_tell();
  return false;
}

void UnseenRefusal::finish() noexcept {
  const std::lock_guard lock(mutex_);
  if (refusal_ && !refusal_->seen.load() && !is_logged_) log_and_tell();
}

void UnseenRefusal::log_and_tell() noexcept {
  is_logged_ = true;
  local_.log->warn(Subsystem::slot, "{}; the program has not looked at the put's request",
                   text_or_empty([this] { return refusal_->text(); }));
  tell();
}

void UnseenRefusal::tell() noexcept {
  if (told_ == place_.sequence || owner_.gone()) return;
  told_ = place_.sequence;
  PutRefusedMessage message{.code = static_cast<std::uint32_t>(refusal_->code),
                            .slot_id = place_.slot_id,
                            .remote_id = place_.remote_id,
                            .sequence = place_.sequence,
                            .text = {}};
  message.text.set(refusal_->message);
  local_.progress.post([&mesh = mesh_, &owner = owner_, message] { mesh.send(owner, message); });
}

void ToldRefusal::keep(const PutRefusedMessage& message) {
  std::string why = fmt::format("{}: {}", weft::name(code_of(message.code)), message.text.get());
  const std::lock_guard lock(mutex_);
  sequence_ = message.sequence;
  why_ = std::move(why);
}

std::string ToldRefusal::of(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  return sequence == sequence_ ? why_ : std::string();
}

}  // namespace weft::p2p
