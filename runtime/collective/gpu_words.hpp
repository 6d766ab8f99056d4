// Words of the members of a group between hosts about calls that their GPUs may carry out.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace weft::detail {

/// A member's word about a call, each final but the first.
enum class GpuWord : std::uint32_t {
  none,    ///< it has said nothing
  offers,  ///< its tensors lie on a GPU, and its paths are not known yet
  yes,     ///< and its GPU reaches all that it must
  later,   ///< this call goes by host memory
  no       ///< and so will all others: a path does not serve
};

/// Kept by member, from the first word on: groups without GPUs need no memory. Any thread.
class GpuWords {
 public:
  explicit GpuWords(std::size_t members) noexcept : members_(members) {}

  /// A member has said this. True if the member is to be told that this rank goes by host memory,
  /// as it does for good where there is no memory for the first word.
  bool hear(std::size_t member, std::uint64_t number, std::uint32_t mark, GpuWord word) noexcept;
  /// This rank has begun the call, with GPUs or not. Returns the members that have offered theirs
  /// and are to be told that it goes by host memory. Throws std::bad_alloc, as no word may be lost
  /// once this rank has offered.
  std::vector<std::size_t> begin(std::uint64_t number, bool offers);
  /// The member's word; `later` if it says that of another call under that number.
  GpuWord said(std::size_t member, std::uint64_t number, std::uint32_t mark) const noexcept;
  /// Whether a member has said `no`, about any call.
  bool has_no() const noexcept { return has_no_.load(); }

 private:
  /// A member says something about 4 calls at once, and may be 4 ahead of this rank; it answers as
  /// many of this rank's.
  static constexpr std::size_t kKept = 16;
  struct Said {
    std::uint64_t number = 0;
    std::uint32_t mark = 0;
    GpuWord word = GpuWord::none;
  };
  struct Member {
    std::array<Said, kKept> said{};
    std::size_t next = 0;  ///< the oldest
  };

  mutable std::mutex mutex_;
  const std::size_t members_;
  std::vector<Member> all_;                     ///< empty until the first word
  std::uint64_t begun_ = 0;                     ///< the last call
  std::array<std::uint64_t, kKept> offered_{};  ///< by number modulo their number
  std::atomic<bool> has_no_{false};
};

}  // namespace weft::detail
