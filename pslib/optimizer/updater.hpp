// An update rule with its state: what a shard applies to its region, update by update.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/compression/push_format.hpp"
#include "pslib/optimizer/exact_sum.hpp"
#include "pslib/optimizer/rule_step.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Elements of one tensor that lie one behind the other in a shard's region. Norms have the same
/// bits however a tensor is cut only if it is cut at multiples of 16 elements.
struct Run {
  std::size_t tensor = 0;
  std::int64_t offset = 0;  ///< in the region
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< in the tensor
};

/// Contributors' gradients in the order in which they are added: of the table's wire type, from the
/// run's first element on; where pushes are compressed each a whole push.
using Sources = std::span<const std::byte* const>;

/// An update is begin(); then keep() for every run unless it is due(); else measure() for every run
/// if it measures(), the other shards' norms added, and apply() for every run.
/// Thread-safety: one thread at a time.
class Updater {
 public:
  /// For up to `contributors` gradients at a time. Throws std::bad_alloc. `options` have passed
  /// check(). `compressed` must outlive it; null where pushes are not.
  Updater(const TableOptions& options, std::size_t tensors, std::int64_t elements,
          std::size_t contributors, const PushFormat* compressed = nullptr);

  void begin(std::size_t contributors) noexcept;
  /// Whether the rule is applied in this update, not only gradients added up.
  bool due() const noexcept { return kept_ == accumulate_; }
  /// Whether the rule goes by norms over all shards.
  bool measures() const noexcept { return !norms_.empty(); }

  void keep(const Run& run, Sources sources) noexcept;
  void measure(const Run& run, const float* parameters, Sources sources) noexcept;
  /// This shard's part from the last measure() on; then everybody's, once others were added.
  std::span<ExactSum> norms() noexcept { return norms_; }
  /// Whether this update's norm is not finite, everybody's included: then apply() leaves values,
  /// states and updates() as they were. False where no norms are measured.
  bool skips() const noexcept;
  /// Once the norms are everybody's, if they are measured; apply() does it where nobody has.
  void settle() noexcept;
  /// Updates that were skipped here.
  std::uint64_t skipped() const noexcept { return skipped_; }
  /// `from` and `to` are the whole region before and after; they may be the same.
  void apply(const Run& run, const float* from, float* to, Sources sources) noexcept;

  // All that the next update depends on besides parameters, to go on elsewhere.
  struct Progress {
    std::uint64_t updates = 0;
    std::uint64_t kept = 0;
    std::uint64_t contributions = 0;
  };
  /// Whether progress() of another updater of the same options may be so.
  bool accepts(const Progress& progress) const noexcept { return progress.kept <= accumulate_; }
  Progress progress() const noexcept { return {update_, kept_, contributions_}; }
  void resume(const Progress& progress) noexcept;
  /// Each as long as the region: the rule's states, and what is kept of gradients.
  std::span<float* const> arrays() const noexcept { return arrays_; }

  /// Times that the rule was applied.
  std::uint64_t updates() const noexcept { return update_; }
  /// As if it had been applied so often: with the states of then.
  void resume(std::uint64_t updates) noexcept { update_ = updates; }
  /// Array `i` of the rule's state, as long as the region.
  float* state(std::size_t i) noexcept { return states_[i].get(); }

 private:
  template <typename Act>
  void for_each_block(const Run& run, Sources sources, const Act& act) noexcept;
  float clip_factor() const noexcept;
  float trust_ratio(std::size_t tensor) const noexcept;

  static constexpr std::size_t kBlock = 4096;

  AppliedRule rule_;
  const float clip_norm_;
  const std::uint32_t accumulate_;
  const DType wire_;
  const PushFormat* const compressed_;  // null: gradients are of the wire type

  std::uint64_t update_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint32_t kept_ = 0;         // updates whose gradients are in, this one included
  std::size_t contributions_ = 0;  // gradients of those
  bool is_settled_ = false;        // constants_ are this update's
  RuleConstants constants_;

  hwy::AlignedFreeUniquePtr<float[]> sums_;  // of gradients kept from former updates
  std::array<hwy::AlignedFreeUniquePtr<float[]>, Rule::kMostStates> states_;
  std::vector<float*> arrays_;          // these
  std::vector<ExactSum> norms_;         // |g|^2, then |p|^2 and |g|^2 of each tensor
  std::vector<const float*> pointers_;  // a block's gradients
  std::vector<float> widened_;          // the same where they lie otherwise than as f32
  std::vector<float> averaged_;         // a block, where norms are measured
};

}  // namespace weft::pslib
