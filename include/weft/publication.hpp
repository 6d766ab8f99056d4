// Weights for readers outside the training group: a rank publishes versions, processes that are no
// ranks join by a token and take the newest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {
class World;
}

namespace weft::pslib {

/// One tensor of a publication. The rows of its first dimension are what deltas are made of; of one
/// with a single dimension, runs of 64 bytes.
struct PublishedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// Who may read, and where. What is empty is taken from the environment.
struct PublisherOptions {
  std::string address{};      ///< as WEFT_SUBSCRIBE_ADDR
  std::string token_file{};   ///< as WEFT_SUBSCRIBE_TOKEN_FILE
  int most_subscribers = 64;  ///< more are refused, and told so
};

struct PublicationOptions {
  /// Copies of the tensors that are held: the newest version, the one that is being written, and
  /// versions that subscribers are still being sent. With 2 a subscriber that takes longer than the
  /// time between two versions never gets a whole one; from 3 on somebody always does.
  int buffers = 3;
  /// Versions back from which a subscriber gets the changed rows alone; who is further behind, or
  /// would not save a quarter, gets everything. 0: no deltas, and nothing is compared.
  int history = 64;
};

/// Of one publication, since it was made.
struct PublicationStatistics {
  std::uint64_t version = 0;       ///< the newest; 0: none yet
  std::uint64_t full_bytes = 0;    ///< of one whole version
  std::uint64_t rows_changed = 0;  ///< of the newest version
  std::uint64_t bytes_copied = 0;  ///< into the publication's own buffers
  std::uint64_t full_sent = 0;     ///< answers with everything
  std::uint64_t deltas_sent = 0;   ///< answers with changed rows only
  std::uint64_t full_bytes_sent = 0;
  std::uint64_t delta_bytes_sent = 0;
  std::uint64_t revoked = 0;  ///< answers begun anew, since their version was overwritten
  int subscribers = 0;        ///< that read it now
};

namespace detail {
class PublicationState;
class PublisherState;
class ReaderState;
}  // namespace detail

/// Named tensors whose versions are published together. Its end tells its subscribers `closed`.
/// Thread-safety: publish() from one thread at a time, the rest from any.
class WEFT_API Publication {
 public:
  Publication(Publication&&) noexcept;
  Publication& operator=(Publication&&) noexcept;
  ~Publication();

  /// Makes the values of `tensors` (dense, in the order of the specs) the next version. They are
  /// copied before it returns; of a version that follows another, changed rows alone. Waits for no
  /// subscriber, whatever that one does. `step` goes with the version, for readers to go by.
  /// Errors: mismatch (other tensors than the specs), exhausted, forked.
  Status publish(std::span<const Tensor> tensors, std::uint64_t step = 0) noexcept;

  /// The newest, counted from 1; 0 before the first publish().
  std::uint64_t version() const noexcept;
  PublicationStatistics statistics() const noexcept;

 private:
  friend class Publisher;
  explicit Publication(std::shared_ptr<detail::PublicationState> state) noexcept;
  std::shared_ptr<detail::PublicationState> state_;
};

/// A rank's acceptor for subscribers, with a thread that answers them. Subscribers are in no group;
/// nobody waits for them but leave(). Publications should go before it, it before its world.
/// Thread-safety: any thread.
class WEFT_API Publisher {
 public:
  /// Throws Error: bad_config (no address or token, or a bad one), system (the address is taken).
  explicit Publisher(World& world, const PublisherOptions& options = {});
  Publisher(Publisher&&) noexcept;
  /// Turns all subscribers out at once, with `left`.
  ~Publisher();

  /// Throws Error: duplicate_name, bad_argument, exhausted.
  Publication publication(const std::string& name, std::vector<PublishedTensor> specs,
                          const PublicationOptions& options = {});

  /// Where subscribers may call: "10.0.0.1:4711", several with commas between.
  const std::string& address() const noexcept;
  int subscribers() const noexcept;
  /// Connections of those who did not know the token, or came with something else.
  std::uint64_t rejected_connections() const noexcept;

  /// Lets nobody in any more, gives those that are there the newest version when they next ask, and
  /// tells them `left` once they have it. Returns when all have gone; Code::timeout says how many
  /// have not.
  Status leave(Deadline deadline = {}) noexcept;

 private:
  std::unique_ptr<detail::PublisherState> state_;
};

/// Where a reader finds the publisher. What is empty is taken from the environment.
struct ReaderOptions {
  std::string address{};     ///< as WEFT_SUBSCRIBE_ADDR
  std::string token_file{};  ///< as WEFT_SUBSCRIBE_TOKEN_FILE
};

/// Of one reader, since it joined.
struct ReaderStatistics {
  std::uint64_t full_taken = 0;
  std::uint64_t deltas_taken = 0;
  std::uint64_t bytes_received = 0;  ///< of tensors
  std::uint64_t bytes_copied = 0;    ///< from one of its buffers to the other
  std::uint64_t begun_anew = 0;      ///< versions that were overwritten before they had come whole
};

/// A process that reads one publication; it needs no world. Versions are whole and never go back.
/// After peer_failed or peer_left a reader is of no use: join again, when somebody publishes again.
/// Thread-safety: one thread at a time, but what tensor() gave may be read by others.
class WEFT_API Reader {
 public:
  /// Waits until somebody publishes under that name. Throws Error: timeout, bootstrap (another
  /// token, or another version of weft), bad_config, exhausted, system.
  static Reader join(const std::string& name, const ReaderOptions& options = {},
                     Deadline deadline = {});
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const std::vector<PublishedTensor>& specs() const noexcept;

  /// Before the first pull: versions are received into these tensors (dense, one for each spec, in
  /// their order), in place, which the caller keeps. A pull that fails leaves a mix of two versions
  /// in them; until one succeeds again whole() is false. Throws Error(mismatch, bad_argument).
  void receive_into(std::vector<Tensor> tensors);

  /// Takes the newest version, if it is newer than version(); waits only while there is none at
  /// all. After a timeout the next call goes on where this one stopped. Errors: timeout,
  /// peer_failed, peer_left (the publisher left), closed (the publication).
  Status pull_latest(Deadline deadline = {}) noexcept;
  /// The same, but waits until there is a newer one than version().
  Status pull_newer(Deadline deadline = {}) noexcept;

  /// What was pulled last, and the publisher's word on it; 0 before.
  std::uint64_t version() const noexcept;
  std::uint64_t step() const noexcept;
  bool whole() const noexcept;

  /// A tensor of version(). A reader has two buffers in turn: what this gave stays as it is during
  /// the next pull, and until the one after it begins. Throws Error(bad_argument), listing the
  /// names.
  Tensor tensor(const std::string& name) const;
  ReaderStatistics statistics() const noexcept;

 private:
  explicit Reader(std::unique_ptr<detail::ReaderState> state) noexcept;
  std::unique_ptr<detail::ReaderState> state_;
};

}  // namespace weft::pslib
