// The part of a group of one host that concerns calls which its ranks' GPUs carry out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/exported_chunk.hpp"
#include "p2p/transport/cuda/peer_work.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/device_call.hpp"
#include "runtime/collective/task.hpp"

namespace weft::detail {

/// Members are places in the group. One thread at a time.
class DeviceGroup {
 public:
  DeviceGroup(p2p::LocalRank& local, std::span<const int> ranks, int me);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  /// This rank's side of a call on tensors on its GPU. Null: the call goes by host memory, and the
  /// log says why. Throws Error.
  std::unique_ptr<DeviceCall> offer(const Task& task, const Call& call);
  /// Whether the last offer(), or what came after it, was refused for a reason that may pass.
  bool refusal_passes() const noexcept { return refusal_passes_; }
  /// Chunks of this rank's that the others must know before such a call.
  std::span<const std::uint32_t> chunks() const noexcept { return chunks_; }
  /// Reasons why a call goes by host memory.
  enum class Why : std::uint8_t {
    host_tensor,
    no_arena,
    two_gpus,
    not_exported,
    many_ranks,
    own_function,
    no_kernels,
    no_pages,
    stream_waits,
    outside,
    unreachable,
    not_mapped,
    no_room,
    lost,
    unseen,
    earlier_proof,
    failed,
    another_rank,
    not_offered,
    other_fabric,
    kind  ///< and those behind it: the kinds of calls
  };
  /// Logs the reason, each once. `text` makes it.
  template <typename Text>
  void refuse(Why why, const Text& text) {
    last_refusal_ = text();
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(why);
    if ((told_ & bit) != 0) return;
    told_ |= bit;
    log(last_refusal_);
  }
  /// The same for a reason that may pass: then refusal_passes().
  template <typename Text>
  void refuse_for_now(Why why, const Text& text) {
    refusal_passes_ = true;
    refuse(why, text);
  }
  /// The last reason.
  const std::string& last_refusal() const noexcept { return last_refusal_; }

  struct Found {
    enum class How : std::uint8_t {
      here,
      unknown,  ///< its chunk is not known here yet
      later,    ///< it can't be mapped now
      never     ///< the GPU does not reach it
    };
    How how = How::unknown;
    Tensor tensor{};
  };
  /// Memory of a member as GPU `by` reaches it.
  Found find(int member, std::uint32_t chunk, std::uint64_t offset, std::uint64_t bytes,
             const std::shared_ptr<p2p::cuda::Gpu>& by);

  /// Whether the paths between these GPUs, by member, are known to be good; nullopt: not yet. The
  /// same on all members.
  using Gpus = std::vector<std::array<char, 16>>;
  std::optional<bool> known(const Gpus& gpus) const noexcept;
  void learn(Gpus gpus, bool good);

  // The proof: each writes a page to each, reads it back, and looks at those of the others.
  /// Begins to write `pages`, those of the others, by member, that are for this rank.
  void begin_pages(const DeviceCall& call, std::uint64_t nonce);
  /// Begins to read them back; or those that others have written here.
  void begin_reading(std::span<const Tensor> pages);
  /// How all copies that have begun ended; nullopt while one goes on.
  std::optional<Status> poll_pages() noexcept;
  /// Whether each page that was read holds that nonce, by member; this rank's is passed over.
  bool hold(std::span<const std::uint64_t> nonces) noexcept;
  /// This rank's page for that member, on the GPU of the call.
  Tensor own_page(const DeviceCall& call, int member) const;

  /// Begins this rank's share of the call, once all places are known. Throws Error.
  void begin(const Task& task, DeviceCall& call);

  // For streams that run the call (device_streams.cpp).
  /// Loads the kernels, which copies need too. False: they can't be had.
  bool prepare_streams(const Task& task, DeviceCall& call);
  /// This rank's share, once all places are known. Throws Error.
  std::vector<p2p::cuda::PeerReduction> work(const Task& task, const DeviceCall& call);
  /// Copies and kernels of the last begin().
  std::uint64_t begun() const noexcept { return begun_; }
  /// A waiting thread of the rank is to look again and again.
  void set_silent(bool goes_on) noexcept {
    silent_.set(goes_on);
    // One that is about to sleep has looked before.
    if (goes_on && !is_silent_) local_.ring();
    is_silent_ = goes_on;
  }

 private:
  /// Finds a tensor of the call that has bytes. False: it is refused.
  bool place(const Tensor& tensor, DeviceCall& call, std::uint32_t& chunk, std::uint64_t& offset);
  bool find_kernel(const Task& task, DeviceCall& call);
  /// Null: they can't be loaded now.
  const p2p::cuda::GpuKernels* load_kernels(const DeviceCall& call);
  /// Fills `copies_`, or returns the kernel that does this rank's share.
  p2p::cuda::PeerReduction share(const Task& task, const DeviceCall& call);
  /// Makes what calls on the GPU need beforehand: its stream, and pages; false: it can't be had.
  bool prepare(DeviceCall& call);
  void need(std::uint32_t chunk);
  void log(const std::string& why) const;
  int size() const noexcept { return static_cast<int>(ranks_.size()); }

  p2p::LocalRank& local_;
  const std::span<const int> ranks_;
  const int me_;
  p2p::SilentWork silent_;
  bool is_silent_ = false;
  bool refusal_passes_ = false;
  p2p::cuda::OwnStreams streams_;
  std::vector<std::uint32_t> chunks_;
  std::string last_refusal_;
  std::uint64_t told_ = 0;       ///< bit `why`: it has been logged
  std::map<int, Tensor> pages_;  ///< by GPU
  struct Known {
    int member = -1;
    std::uint32_t chunk = 0;
    int by = -1;
    Tensor whole{};
  };
  std::vector<Known> known_;
  std::vector<std::pair<Gpus, bool>> configurations_;
  struct PageCopy {
    int member = -1;
    p2p::cuda::DeviceCopy copy{};
  };
  std::vector<PageCopy> page_copies_;
  std::vector<p2p::cuda::PeerCopy> copies_;
  std::uint64_t begun_ = 0;
};

}  // namespace weft::detail
