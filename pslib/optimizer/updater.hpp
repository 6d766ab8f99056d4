// An update rule with its state, as a shard applies it to its region.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/compression/push_cut.hpp"
#include "pslib/optimizer/exact_sum.hpp"
#include "pslib/optimizer/rule_step.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Elements of one tensor that are contiguous in a shard's region. Norms have the same bits however
/// a tensor is cut, provided it is cut at multiples of 16 elements.
struct Run {
  std::size_t tensor = 0;
  std::int64_t offset = 0;  ///< in the region
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< in the tensor
};

/// The contributors' gradients of a run, in the order of addition.
using Sources = std::span<const Source>;

/// An update is begin(), then: if not due(), keep() for every run. If due(): if measures(),
/// measure() for every run and add the other shards' norms; then apply() for every run. Not
/// thread-safe.
class Updater {
 public:
  /// For at most `contributors` gradients at a time. Requires that `options` passed check().
  /// `compressed`: pushes are. Throws std::bad_alloc.
  Updater(const TableOptions& options, std::size_t tensors, std::int64_t elements,
          std::size_t contributors, bool compressed = false);

  void begin(std::size_t contributors) noexcept;
  /// True if this update applies the rule; false if it only accumulates gradients.
  bool due() const noexcept { return kept_ == accumulate_; }
  /// True if the rule needs norms over all shards.
  bool measures() const noexcept { return !norms_.empty(); }

  void keep(const Run& run, Sources sources) noexcept;
  void measure(const Run& run, const float* parameters, Sources sources) noexcept;
  /// This shard's norms after the last measure(); the total once the others' are added.
  std::span<ExactSum> norms() noexcept { return norms_; }
  /// True if this update's total norm is not finite: apply() then leaves values, states and
  /// updates() unchanged. False if norms are not measured.
  bool skips() const noexcept;
  /// Computes the update's constants. Call once the norms are complete, if measured; apply() calls
  /// it otherwise.
  void settle() noexcept;
  /// Updates skipped here.
  std::uint64_t skipped() const noexcept { return skipped_; }
  /// `from` and `to` are the whole region before and after; they may be equal.
  void apply(const Run& run, const float* from, float* to, Sources sources) noexcept;

  // All state besides parameters and arrays that the next update depends on.
  struct Progress {
    std::uint64_t updates = 0;
    std::uint64_t kept = 0;
    std::uint64_t contributions = 0;
  };
  /// True if `progress` may come from another updater with the same options.
  bool accepts(const Progress& progress) const noexcept { return progress.kept <= accumulate_; }
  Progress progress() const noexcept { return {update_, kept_, contributions_}; }
  void resume(const Progress& progress) noexcept;
  /// The rule's states and the accumulated gradients, each as long as the region.
  std::span<float* const> arrays() const noexcept { return arrays_; }

  /// Applications of the rule.
  std::uint64_t updates() const noexcept { return update_; }
  /// Continues after `updates` applications; the caller restores the states of that time.
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

  std::uint64_t update_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint32_t kept_ = 0;         // accumulated updates, including this one
  std::size_t contributions_ = 0;  // their gradients
  bool is_settled_ = false;        // constants_ are those of this update
  RuleConstants constants_;

  hwy::AlignedFreeUniquePtr<float[]> sums_;  // gradients accumulated in former updates
  std::array<hwy::AlignedFreeUniquePtr<float[]>, Rule::kMostStates> states_;
  std::vector<float*> arrays_;          // states_ and sums_
  std::vector<ExactSum> norms_;         // |g|^2, then |p|^2 and |g|^2 per tensor
  std::vector<const float*> pointers_;  // scratch: a block's gradients
  std::vector<float> widened_;          // scratch: those not stored as f32
  std::vector<float> averaged_;         // a block, if norms are measured
};

}  // namespace weft::pslib
