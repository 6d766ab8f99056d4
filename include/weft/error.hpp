// Errors: one form for thrown errors, returned statuses and the C binding.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weft/api.hpp"

namespace weft {

/// The kind of a failure, for programs to branch on. The text of an error is for people.
enum class Code : std::uint8_t {
  ok,
  timeout,         ///< the deadline passed; the operation is still alive
  peer_failed,     ///< a peer died without leaving
  peer_left,       ///< a peer left the job in order, and this operation still needed it
  closed,          ///< the other end closed the slot, signal, rendezvous or publication
  mismatch,        ///< the two ends disagree: dtype, shape, depth or flow; calls; versions
  duplicate_name,  ///< this rank already exposes a slot or signal of that name
  writer_taken,    ///< the slot already has its one writer
  bad_argument,    ///< the call itself is wrong
  bad_config,      ///< a WEFT_* variable or an option has a value that is not accepted
  exhausted,       ///< memory, descriptors or a queue are used up
  unreachable,     ///< no fabric reaches the peer
  flow_overrun,    ///< WEFT_CHECK=flow saw a synchronous slot overtake its reader
  cancelled,       ///< the request was cancelled
  bootstrap,       ///< the ranks could not exchange their addresses
  system,          ///< the operating system refused; the message has its reason
  forked,          ///< this process is a fork of a rank's process and is not a rank
  path_failed,     ///< the connection to a peer broke; the peer itself may still be alive
  fenced,          ///< other ranks have declared this one dead; it takes no part any more
  partitioned      ///< this rank was cut off from most of its group, which goes on without it
};

/// The code's name as it is printed and documented, e.g. "peer_failed".
WEFT_API std::string_view name(Code code) noexcept;

/// All that is known about one failure. Fields that don't apply are empty or -1.
struct WEFT_API ErrorDetail {
  Code code = Code::system;
  std::string operation{};  ///< the operation that failed: "put", "attach", "join"
  std::string message{};    ///< the event, with both sides' values if two sides disagree
  std::string hint{};       ///< a remedy to try
  int rank = -1;            ///< the rank that reports the failure
  int peer = -1;            ///< the rank at fault or waited for
  std::string host{};       ///< the peer's host
  std::string slot{};       ///< the slot concerned
  std::uint64_t sequence_expected = 0;  ///< waits: the sequence number waited for
  std::uint64_t sequence_seen = 0;      ///< waits: the last sequence number seen

  /// The failure as one line: code, operation, place, message, hint.
  std::string text() const;
};

class Status;

/// The exception of control calls (join, expose, attach, ...). Data-path calls never throw: they
/// return a Status.
class WEFT_API Error : public std::exception {
 public:
  explicit Error(ErrorDetail detail);
  explicit Error(const Status& status);
  // Copies alone: an error that was moved from would have no detail.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override;

  Code code() const noexcept { return detail_->code; }
  const ErrorDetail& detail() const noexcept { return *detail_; }
  /// detail().text(). Valid as long as this object or a copy.
  const char* what() const noexcept override;
  Status status() const noexcept;

 private:
  std::shared_ptr<const ErrorDetail> detail_;
  std::shared_ptr<const std::string> text_;
};

/// The outcome of a data-path call: ok (a null pointer, cheap to copy) or an ErrorDetail.
/// Thread-safety: a value; copies may be used by different threads.
class [[nodiscard]] WEFT_API Status {
 public:
  Status() noexcept = default;
  /// Never throws: if memory for `detail` can't be allocated, the status holds a preallocated
  /// detail that says so.
  explicit Status(ErrorDetail detail) noexcept;
  explicit Status(std::shared_ptr<const ErrorDetail> detail) noexcept
      : detail_(std::move(detail)) {}

  bool ok() const noexcept { return detail_ == nullptr; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return detail_ ? detail_->code : Code::ok; }
  /// An empty detail with Code::ok if ok().
  const ErrorDetail& detail() const noexcept { return detail_ ? *detail_ : no_detail(); }
  std::shared_ptr<const ErrorDetail> shared_detail() const noexcept { return detail_; }
  /// "ok", or detail().text().
  std::string text() const;
  /// Throws Error unless ok().
  void or_throw() const;

 private:
  static const ErrorDetail& no_detail() noexcept;
  std::shared_ptr<const ErrorDetail> detail_;
};

namespace detail {
/// Throws Error(bad_argument): the handle, of that type, is empty.
[[noreturn, gnu::cold]] WEFT_API void refuse_empty(const char* type, const char* operation);
}  // namespace detail

/// A value of type T, or the Status that says why there is none. In the latter case the T is
/// default-constructed and must not be used.
template <typename T>
class [[nodiscard]] Result {
 public:
  static_assert(std::default_initializable<T>);

  Result(T value) noexcept : value_(std::move(value)) {}
  /// `status` must not be ok.
  Result(Status status) noexcept : status_(std::move(status)) {}

  bool ok() const noexcept { return status_.ok(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }

  /// Requires ok().
  T& operator*() & noexcept { return value_; }
  const T& operator*() const& noexcept { return value_; }
  T&& operator*() && noexcept { return std::move(value_); }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }

  /// Returns the value; throws Error with the status' detail unless ok(). A result that has a name
  /// keeps the value, which is valid as long as the result. One that has none, or was moved from,
  /// gives it to the caller.
  T& value() & {
    if (!ok()) status_.or_throw();
    return value_;
  }
  const T& value() const& {
    if (!ok()) status_.or_throw();
    return value_;
  }
  T value() && {
    if (!ok()) status_.or_throw();
    return std::move(value_);
  }

 private:
  T value_{};
  Status status_;
};

}  // namespace weft
