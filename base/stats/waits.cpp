#include "base/stats/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/stats/packed.hpp"

namespace weft::stats {
namespace {

thread_local const OuterCall* innermost = nullptr;

}  // namespace

void WaitDetails::set_text(std::string_view text) noexcept {
  text = text.substr(0, chars.size() - 1);
  std::ranges::copy(text, chars.begin());
  chars[text.size()] = '\0';
}

OuterCall::OuterCall(const char* operation, std::string_view table, std::uint64_t step) noexcept
    : operation_(operation), table_(table), step_(step), before_(innermost) {
  innermost = this;
}

OuterCall::~OuterCall() { innermost = before_; }

const OuterCall* OuterCall::current() noexcept { return innermost; }

void OuterCall::write(std::span<char> text) const noexcept {
  const auto end =
      step_ == 0
          ? fmt::format_to_n(text.data(), text.size() - 1, "{} of table {}", operation_, table_)
          : fmt::format_to_n(text.data(), text.size() - 1, "{} of table {}, step {}", operation_,
                             table_, step_);
  *end.out = '\0';
}

std::uint64_t pack(const WaitAbout& about) noexcept {
  const bool is_step = about.operation == Operation::step || about.details == nullptr;
  const std::uint8_t third = is_step ? about.executor : about.details->count;
  return pack(static_cast<std::uint8_t>(about.operation), about.peer) |
         static_cast<std::uint64_t>(third) << 32U | static_cast<std::uint64_t>(about.more) << 40U;
}

void Waits::renew(WaitEntry& entry, const WaitAbout& about) noexcept {
  if (const WaitDetails* const details = about.details; details != nullptr) {
    entry.bytes.store(details->bytes, std::memory_order_release);
    entry.tag.store(details->tag, std::memory_order_release);
    entry.mask.store(details->mask, std::memory_order_release);
    for (std::size_t i = 0; i < details->count; ++i)
      entry.awaited[i].store(details->awaited[i], std::memory_order_release);
    entry.text.set(details->text());
  } else {
    entry.bytes.store(0, std::memory_order_release);
    entry.mask.store(0, std::memory_order_release);
    entry.text.words[0].store(0, std::memory_order_release);
  }
  entry.what.store(pack(about), std::memory_order_release);
}

WaitEntry* Waits::show(const WaitAbout& about, Clock::time_point since,
                       Clock::time_point until) noexcept {
  for (WaitEntry& entry : entries_) {
    if (entry.taken.load(std::memory_order_relaxed) != 0 ||
        entry.taken.exchange(1, std::memory_order_acquire) != 0)
      continue;
    renew(entry, about);
    if (const OuterCall* const outer = OuterCall::current(); outer != nullptr) {
      std::array<char, 96> text{};
      outer->write(text);
      entry.within.set(text.data());
    } else {
      entry.within.words[0].store(0, std::memory_order_release);
    }
    entry.slot.store(about.slot, std::memory_order_release);
    entry.sequence.store(about.sequence, std::memory_order_release);
    entry.until.store(ns_of(until), std::memory_order_release);
    entry.since.store(about.since_ns == 0 ? ns_of(since) : about.since_ns,
                      std::memory_order_release);
    return &entry;
  }
  return nullptr;
}

void Waits::end(WaitEntry* entry, const WaitAbout& about, Clock::time_point since) noexcept {
  if (entry != nullptr) {
    entry->since.store(0, std::memory_order_release);
    entry->taken.store(0, std::memory_order_release);
  }
  if (Clock::now() - since < kLong) return;
  recorder_.control({.event = Event::waited,
                     .operation = about.operation,
                     .peer = about.peer,
                     .slot = about.slot,
                     .value = about.sequence,
                     .started_ns = ns_of(since)});
}

}  // namespace weft::stats
