// Where the streams of several ranks of a host meet: each waits for words that the others set.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/peer_work.hpp"
#include "p2p/transport/cuda/pinned_mapping.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

/// One rank's side of an operation that streams carry out again and again, as calls or as parts of
/// graphs. In each run the stream tells the others that this rank's tensors are ready, waits until
/// theirs are, works on them, tells that it has done so, and waits until all have. Words are reset
/// by the stream that has waited for them, so that each run is like the last one.
///
/// After end() runs go on, wait for no rank and touch no tensor. The words and kernels, whose
/// addresses graphs hold, stay as long as a stream or a graph may use them: see leave().
/// Thread-safe, but for put_on().
class StreamMeeting {
 public:
  /// Bytes of a rank's words in host memory that all members reach, zeroed before they do.
  static std::size_t words_bytes(std::size_t members) noexcept {
    return (kFirst + 2 * members) * sizeof(std::uint32_t);
  }
  /// Makes them those of a new meeting, before any member reaches it.
  static void reset(std::uint32_t* words, std::size_t members) noexcept;
  /// A step of a run, and the value of a rank's word that says so.
  enum class Step : std::uint32_t { none, readying, working };

  /// `words`: this rank's, which others may write until they have ended, so their owner keeps them
  /// beyond this object. `partners`: the others' words, by member, null for this rank, which `pins`
  /// keep along with its own. `wake`: called by a thread of the driver's when a run begins,
  /// until end(); it makes no call of the driver.
  StreamMeeting(std::shared_ptr<Gpu> gpu, std::shared_ptr<const OwnedBlock> words,
                std::vector<std::uint32_t*> partners,
                std::vector<std::shared_ptr<const PinnedMapping>> pins, std::size_t me,
                std::function<void()> wake);
  StreamMeeting(const StreamMeeting&) = delete;
  StreamMeeting& operator=(const StreamMeeting&) = delete;

  /// Puts one run on the stream, or into the graph that it captures. One thread at a time. Requires
  /// a Gpu::Current. Throws Error: system; then the runs must end, as part of one may be there.
  void put_on(const char* operation, StreamHandle stream, bool is_captured,
              std::span<const PeerReduction> work);

  /// 0, or the number of the Code with which the runs have ended. Results of the last run are right
  /// if it is 0 behind that run.
  const std::uint32_t* outcome() const noexcept { return words_ + kOutcome; }
  Code ended_with() const noexcept { return static_cast<Code>(load(words_ + kOutcome)); }
  /// Ends the runs, unless that is so already: no stream waits for another rank any more. `tells`:
  /// the other members' runs end too, before a stream of this rank goes on without them.
  void end(Code why, bool tells) noexcept;
  /// The same for an owner that goes: Code::closed, or, while a run is under way, Code::cancelled,
  /// which ends the other members' too. True if that was so.
  bool close() noexcept;
  bool is_ended() const noexcept { return is_ended_.load(std::memory_order_acquire); }
  /// Whether close() has ended the runs between two of them. A failure may have its Code too.
  bool is_closed() const noexcept { return is_closed_.load(); }
  /// After end(), again and again while is_under_way(): a run that had begun may have reset a word.
  void release() noexcept;

  /// Whether a run has begun, as far as the stream is, and not ended.
  bool has_begun() const noexcept { return step() != Step::none; }
  /// The same, or one that is no part of a graph has been put on a stream.
  bool is_under_way() const noexcept {
    return has_begun() || queued_.load() != queued_begun_.load();
  }
  /// Runs that have begun.
  std::uint64_t begun() const noexcept { return begun_.load(std::memory_order_acquire); }
  /// Members for which the stream waits in this run.
  std::vector<std::size_t> awaited() const;
  /// Whether a run of another member's, which may touch this rank's tensors, has begun and not
  /// ended. After end() that member begins none that does.
  bool works(std::size_t member) const noexcept;
  /// The Code with which that member's runs have ended; ok: they have not.
  Code ended_with(std::size_t member) const noexcept {
    return static_cast<Code>(load(partners_[member] + kOutcome));
  }
  /// Tells the meetings apart that have used these words, one after another.
  static std::uint32_t use_of(const std::uint32_t* words) noexcept { return load(words + kUse); }
  /// Whether a member, whose words had this use, writes no word of another rank for it any more.
  static bool has_ended(const std::uint32_t* words, std::uint32_t use) noexcept {
    return use_of(words) != use || (load(words + kOutcome) != 0 && load(words + kStep) == 0);
  }
  /// Whether two runs were put on streams that are not in order.
  bool is_misused() const noexcept { return is_misused_.load(); }
  std::size_t members() const noexcept { return partners_.size(); }

  /// The owner goes. The meeting stays until no stream and no graph uses it, and on until reap().
  /// Requires end(). Makes no call of the driver.
  static void leave(std::shared_ptr<StreamMeeting> meeting) noexcept;
  /// Lets go of those that no stream and no graph uses any more. This may wait for all streams of
  /// the process.
  static void reap() noexcept;

 private:
  // Words, in this order: those of the steps behind, by member.
  static constexpr std::size_t kOutcome = 0;
  static constexpr std::size_t kStep = 1;
  static constexpr std::size_t kUse = 2;
  static constexpr std::size_t kFirst = 16;
  std::uint32_t* ready(std::uint32_t* words) const noexcept { return words + kFirst; }
  std::uint32_t* done(std::uint32_t* words) const noexcept { return ready(words) + members(); }
  static std::uint32_t load(const std::uint32_t* word) noexcept {
    return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
  }
  static void store(std::uint32_t* word, std::uint32_t value) noexcept {
    std::atomic_ref(*word).store(value, std::memory_order_seq_cst);
  }
  /// Ends the runs of one member.
  static void mark(std::uint32_t* words, Code why) noexcept {
    std::uint32_t none = 0;
    std::atomic_ref(words[kOutcome])
        .compare_exchange_strong(none, static_cast<std::uint32_t>(why), std::memory_order_seq_cst);
  }
  Step step() const noexcept { return static_cast<Step>(load(words_ + kStep)); }

  static void begin_call(void* meeting) { static_cast<StreamMeeting*>(meeting)->begin(true); }
  static void begin_in_graph(void* meeting) { static_cast<StreamMeeting*>(meeting)->begin(false); }
  /// A thread of the driver's: the stream has come to a run.
  void begin(bool is_call) noexcept;
  void end_locked(Code why, bool tells) noexcept;
  void release_locked() noexcept;
  /// The graph that the stream captures keeps this object.
  void retain(const char* operation, StreamHandle stream);
  bool is_in_use() const noexcept { return graphs_.load() != 0 || is_lost_ || is_under_way(); }

  class OnStream;
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<const OwnedBlock> block_;
  std::uint32_t* const words_;
  const std::vector<std::uint32_t*> partners_;
  const std::vector<std::shared_ptr<const PinnedMapping>> pins_;
  const std::size_t me_;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::atomic<bool> is_ended_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_misused_{false};
  std::atomic<bool> is_lost_{false};  ///< a run may never end
  std::atomic<std::uint64_t> queued_{0};
  std::atomic<std::uint64_t> queued_begun_{0};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> graphs_{0};
};

}  // namespace weft::p2p::cuda
