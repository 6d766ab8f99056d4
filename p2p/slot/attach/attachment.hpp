// An owner's record of each rank that has attached to its slot.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/attach/use_gate.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::detail {

/// One attached rank: a put slot's writer, or one of a published slot's readers. Attachments stay
/// with the slot until it goes, so that the application's thread may walk them freely; an inactive
/// one serves the next attach of the same peer.
struct Attachment {
  std::atomic<std::uint64_t> id{0};  ///< of this use of the attachment
  p2p::Peer* peer = nullptr;
  std::uint64_t remote_id = 0;
  /// In the remote end's memory: a writer's credits, or the newest version for a reader that can't
  /// load it from here.
  p2p::RemoteMemory credit_word;
  bool wants_newest = false;                     ///< a reader's: it can't load the newest version
  std::optional<std::uint32_t> notification_id;  ///< a writer's: what the channel calls the lines
  std::optional<std::uint32_t> chunk_id;         ///< a writer's: the words of its chunks
  std::uint64_t chunks_above = 0;                ///< AttachedMessage's
  bool tails = false;                    ///< a writer's: its words may lie behind their tensors
  std::uint64_t released_at_attach = 0;  ///< a writer's: the credits that the grant told it
  p2p::OwnedBlock words_block;           ///< a reader's words, in this rank's control arena
  p2p::UseGate gate;  ///< shut when the remote end is gone: no more credit writes
  std::atomic<bool> active{false};
  std::uint64_t leaves_after = 0;  ///< dynamic: gone, but its tensors up to this one are unread
  Attachment* next = nullptr;      ///< the next reader

  p2p::ReaderWords words() const noexcept { return p2p::ReaderWords(words_block.data()); }
  bool counts() const noexcept { return active.load(std::memory_order_acquire) && !peer->gone(); }
};

/// A slot's attachments. The progress thread's.
class Attachments {
 public:
  Attachments(p2p::LocalRank& local, p2p::Mesh& mesh) noexcept : local_(local), mesh_(mesh) {}

  /// An inactive attachment for `peer`. Only one of the same peer is used again: the application's
  /// thread may still look at whose it was.
  Attachment& free_for(p2p::Peer& peer) {
    const auto left = std::ranges::find_if(all_, [&](const auto& attachment) {
      return attachment->peer == &peer && !attachment->active.load() &&
             attachment->gate.is_drained();
    });
    if (left != all_.end()) return **left;
    Attachment& attachment = *all_.emplace_back(std::make_unique<Attachment>());
    attachment.peer = &peer;
    // Runs when the last credit write to a remote end that left is done.
    attachment.gate.on_drained([&local = local_, &mesh = mesh_, &attachment] {
      local.progress.post([&mesh, &peer = *attachment.peer, id = attachment.remote_id] {
        mesh.send(peer, p2p::DetachedMessage{.remote_id = id});
      });
    });
    return attachment;
  }
  /// The attachment counts from now on.
  void activate(Attachment& attachment) noexcept {
    attachment.id.store(next_id_++, std::memory_order_relaxed);
    attachment.leaves_after = 0;
    attachment.active.store(true, std::memory_order_release);
    attachment.gate.open();
  }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  std::vector<std::unique_ptr<Attachment>> all_;
  std::uint64_t next_id_ = 1;
};

}  // namespace weft::detail
