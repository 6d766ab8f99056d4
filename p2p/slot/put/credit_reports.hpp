// The tensors that an owner has released, and the credits that its writer knows of.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "p2p/slot/attach/slot_messages.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// The highest tensor that was released together with all before it. The application's thread
/// writes it, the progress thread reads it.
class ReleasedTensors {
 public:
  /// For callers that do not know which is the highest.
  static constexpr std::uint64_t kAnyReceived = ~std::uint64_t{0};

  explicit ReleasedTensors(std::uint32_t depth) : early_(depth, 0) {}

  std::uint64_t all(std::memory_order order) const noexcept { return all_.load(order); }
  const std::atomic<std::uint64_t>& word() const noexcept { return all_; }
  /// `received`: the highest that was handed out.
  void release(std::uint64_t sequence, std::uint64_t received) noexcept {
    const std::uint64_t all = all_.load(std::memory_order_relaxed);
    if (sequence == all + 1 && sequence == received) [[likely]]
      all_.store(sequence, std::memory_order_release);
    else
      release_out_of_order(sequence, received, all);
  }
  /// A dynamic tensor was read: tensors are passed in their order.
  void pass(std::uint64_t sequence) noexcept { all_.store(sequence, std::memory_order_seq_cst); }

 private:
  void release_out_of_order(std::uint64_t sequence, std::uint64_t received,
                            std::uint64_t all) noexcept {
    const auto place = [&](std::uint64_t one) -> std::uint8_t& {
      return early_[(one - 1) % early_.size()];
    };
    if (sequence != all + 1) {
      place(sequence) = 1;
      return;
    }
    ++all;
    while (all < received && place(all + 1) != 0) place(++all) = 0;
    all_.store(all, std::memory_order_release);
  }

  std::atomic<std::uint64_t> all_{0};
  std::vector<std::uint8_t> early_;  ///< by buffer: released before an earlier one
};

/// When credits are worth a write to the writer. The application's thread's, except for `wanted`.
class CreditReports {
 public:
  CreditReports(const SlotSpec& spec, bool kept) noexcept
      : kept_(kept),
        idle_(spec.flow == Flow::credits && fixed(spec) ? (spec.depth + 1) / 2 : 1),
        pressed_(spec.flow == Flow::credits && fixed(spec) && spec.depth > kReportsAllUpTo
                     ? std::max<std::uint64_t>(idle_, spec.depth - 2)
                     : 1) {}

  /// Whether credits are kept at all: the flow asks for it, or WEFT_CHECK=flow.
  bool kept() const noexcept { return kept_; }
  /// Credits that are reported when there is time, and even if there is none.
  std::uint64_t when_idle() const noexcept { return idle_; }
  std::uint64_t when_pressed() const noexcept { return pressed_; }

  /// The highest sequence that the writer knows to be released.
  std::uint64_t reported() const noexcept { return reported_; }
  void report(std::uint64_t all) noexcept { reported_ = all; }
  /// Whether reported() was told to the writer of this attachment.
  bool told(std::uint64_t attachment) const noexcept { return attachment == attachment_; }
  void begin_writer(std::uint64_t attachment, std::uint64_t released) noexcept {
    attachment_ = attachment;
    reported_ = released;
  }

  /// The writer is held up: releasing `from` is reported at once.
  void want(std::uint64_t from) noexcept { wanted_from_.store(from, std::memory_order_seq_cst); }
  bool is_wanted(std::uint64_t released) const noexcept {
    return released >= wanted_from_.load(std::memory_order_relaxed);
  }
  /// Takes the wish, if `released` fulfils it.
  bool take_wanted(const ReleasedTensors& released) noexcept {
    std::uint64_t wanted = wanted_from_.load(std::memory_order_seq_cst);
    if (released.all(std::memory_order_acquire) < wanted) return false;
    wanted_from_.compare_exchange_strong(wanted, kNothingWanted);
    return true;
  }

 private:
  static bool fixed(const SlotSpec& spec) noexcept { return spec.placement == Placement::fixed; }
  static constexpr std::uint64_t kNothingWanted = ~std::uint64_t{0};

  const bool kept_;
  const std::uint64_t idle_;
  const std::uint64_t pressed_;
  std::atomic<std::uint64_t> wanted_from_{kNothingWanted};
  std::uint64_t attachment_ = 0;
  std::uint64_t reported_ = 0;
};

}  // namespace weft::p2p
