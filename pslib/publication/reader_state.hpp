// A subscriber's end of a publication.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "pslib/publication/layout.hpp"
#include "pslib/publication/run_cursor.hpp"
#include "pslib/publication/subscriber_settings.hpp"
#include "pslib/publication/wire.hpp"
#include "weft/publication.hpp"

namespace weft::pslib::detail {

/// Requests versions and receives them directly into place. A call that timed out is resumed by the
/// next one. Not thread-safe.
class ReaderState {
 public:
  /// Waits until a publication of that name exists. Throws Error.
  ReaderState(std::string name, const SubscriberSettings& settings, Deadline deadline);

  const std::vector<PublishedTensor>& specs() const noexcept { return specs_; }
  void receive_into(std::vector<Tensor> tensors);
  /// Receives the newest version; with `waits`, one newer than the last.
  Status pull(bool waits, Deadline deadline) noexcept;
  Tensor tensor(const std::string& name) const;

  std::uint64_t version = 0;
  std::uint64_t step = 0;
  bool whole = false;
  ReaderStatistics statistics;

 private:
  /// The part of an answer being received.
  enum class Stage : std::uint8_t { nothing, head, runs, part_length, part };

  void attach(Deadline deadline);
  void ask(const wire::Ask& ask);
  void take_answer(Deadline deadline);
  /// Each receives its stage and sets the next.
  void take_head(Deadline deadline);
  void take_runs(Deadline deadline);
  void take_part_length(Deadline deadline);
  void take_part(Deadline deadline);
  void finish();
  void catch_up();
  void prepare_buffers();
  TensorPlaces places(std::size_t buffer) const;

  void receive(std::span<std::byte> to, Deadline deadline);
  /// Handles a system call that returned no data: waits, or throws Error with timeout or the reason
  /// why no data will come.
  void wait_or_fail(ssize_t got, Deadline deadline);
  template <typename T>
  void receive_record(T& record, Deadline deadline) {
    receive(std::as_writable_bytes(std::span(&record, 1)), deadline);
  }
  [[noreturn]] void fail(Code code, const std::string& message, const std::string& hint = {});
  [[noreturn]] void fail_malformed();
  [[noreturn]] void fail_late();

  const std::string name_;
  const std::string address_;
  const std::chrono::nanoseconds timeout_;
  os::Fd socket_;
  std::vector<PublishedTensor> specs_;
  std::optional<std::string> others_;  ///< existing names, while this one is missing
  std::shared_ptr<const PublishedLayout> layout_;
  std::shared_ptr<const ErrorDetail> over_;  ///< set once no more data can come

  /// Two alternating buffers, or the application's tensors.
  std::array<std::shared_ptr<os::Mapping>, 2> buffers_;
  std::vector<Tensor> in_place_;
  std::size_t front_ = 0;  ///< index of the buffer that holds `version`
  RowRuns stale_;          ///< rows in which the other buffer may differ

  Stage stage_ = Stage::nothing;
  bool asked_to_wait_ = false;
  std::size_t have_ = 0;  ///< bytes received of the current record
  wire::Head head_;
  RowRuns runs_;
  RunCursor cursor_;
  std::uint32_t part_ = 0;
  std::size_t part_left_ = 0;
};

}  // namespace weft::pslib::detail
