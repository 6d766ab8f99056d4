// Which members of a group have entered a call, as far as this rank has heard.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace weft::detail {

/// Between hosts a rank sees only the members that it exchanges pieces with. A rank that waits for
/// long asks these; they answer at once if they have entered the call, and name the members that
/// they miss themselves. So the name of a missing member travels to ranks that exchange nothing
/// with it. Members are places in the group. Thread-safe.
class EntryNews {
 public:
  explicit EntryNews(int size) : size_(static_cast<std::size_t>(size)) {}

  /// `member` is asked whether it has entered call `number`. Throws std::bad_alloc.
  void ask(int member, std::uint64_t number);
  /// `member` has entered call `number` and misses `absent` there. Throws std::bad_alloc.
  void hear(int member, std::uint64_t number, std::vector<int> absent);

  bool was_asked(int member, std::uint64_t number) const noexcept;
  bool has_entered(int member, std::uint64_t number) const noexcept;
  /// The members that `member` misses in call `number`. Throws std::bad_alloc.
  std::vector<int> missed_by(int member, std::uint64_t number) const;

  /// Sets the members that this rank misses in call `number`, for its answers to others.
  void set_missed(std::uint64_t number, std::vector<int> absent) noexcept;
  /// The same for an answer; empty if none are known. Throws std::bad_alloc.
  std::vector<int> missed(std::uint64_t number) const;

 private:
  struct Member {
    std::uint64_t asked = 0;    ///< the newest call that it was asked about
    std::uint64_t entered = 0;  ///< the newest call that it is known to have entered
    std::vector<int> absent{};  ///< the members that it misses in that call
  };
  Member& at(int member);
  const Member* find(int member) const noexcept;

  const std::size_t size_;
  mutable std::mutex mutex_;
  std::vector<Member> members_;  ///< empty until a rank has waited for long
  std::uint64_t missed_in_ = 0;
  std::vector<int> missed_;
};

}  // namespace weft::detail
