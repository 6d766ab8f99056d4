// Publications: a rank publishes versions of tensors; processes outside the job (subscribers) join
// by a token and take the newest.
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

/// One tensor of a publication. Deltas consist of whole rows: indices of the first dimension, or
/// runs of 64 bytes if the tensor has only one dimension.
struct PublishedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// Where a publisher accepts subscribers, and by which token. Empty fields are taken from the
/// environment.
struct PublisherOptions {
  std::string address{};      ///< as WEFT_SUBSCRIBE_ADDR
  std::string token_file{};   ///< as WEFT_SUBSCRIBE_TOKEN_FILE
  int most_subscribers = 64;  ///< 1 to 65536; more are refused and told so
};

/// How many versions a publication keeps.
struct PublicationOptions {
  /// Number of buffers, each as large as all tensors, at least 2: the newest version, the one being
  /// written, and versions that subscribers are still receiving. With 2, a subscriber that takes
  /// longer than the time between two versions never gets a complete one; with 3 or more, some
  /// subscriber always does.
  int buffers = 3;
  /// Number of versions back from which a subscriber gets only the changed rows. A subscriber that
  /// is further behind, or would save less than a quarter of the bytes, gets everything. 0: no
  /// deltas; versions are not compared.
  int history = 64;
};

/// Counters of one publication since its creation.
struct PublicationStatistics {
  std::uint64_t version = 0;           ///< the newest version; 0: none yet
  std::uint64_t full_bytes = 0;        ///< bytes of one complete version
  std::uint64_t rows_changed = 0;      ///< rows that changed in the newest version
  std::uint64_t bytes_copied = 0;      ///< bytes copied into the publication's buffers
  std::uint64_t full_sent = 0;         ///< answers with all rows
  std::uint64_t deltas_sent = 0;       ///< answers with changed rows only
  std::uint64_t full_bytes_sent = 0;   ///< payload of the answers with all rows
  std::uint64_t delta_bytes_sent = 0;  ///< payload of the answers with changed rows only
  std::uint64_t revoked = 0;           ///< answers restarted because their version was overwritten
  int subscribers = 0;                 ///< subscribers that read the publication now
};

namespace detail {
class PublicationState;
class PublisherState;
class ReaderState;
}  // namespace detail

/// Named tensors whose versions are published together. Destroying it ends its subscribers' pulls
/// with Code::closed. Thread-safety: publish() from one thread at a time, everything else from any
/// thread.
class WEFT_API Publication {
 public:
  Publication(Publication&&) noexcept;
  Publication& operator=(Publication&&) noexcept;
  ~Publication();

  /// Publishes the values of `tensors` (dense, in the order of the specs) as the next version.
  /// Copies them before it returns, after the first version the changed rows only; so the tensors
  /// remain the caller's. Never waits for a subscriber. `step` is any number of the caller's;
  /// readers get it by Reader::step(). Errors: mismatch (tensors that differ from the specs),
  /// bad_argument (a tensor without memory), exhausted, forked.
  Status publish(std::span<const Tensor> tensors, std::uint64_t step = 0) noexcept;

  /// The newest version, counted from 1; 0 before the first publish().
  std::uint64_t version() const noexcept;
  PublicationStatistics statistics() const noexcept;

 private:
  friend class Publisher;
  explicit Publication(std::shared_ptr<detail::PublicationState> state) noexcept;
  std::shared_ptr<detail::PublicationState> state_;
};

/// Accepts subscribers at an address of this rank and answers them from a thread of its own.
/// Subscribers are members of no group, and only leave() waits for them. A publication that
/// outlives it is Code::closed. Thread-safety: any thread.
class WEFT_API Publisher {
 public:
  /// Starts to listen. Throws Error: bad_argument (options), bad_config (address or token
  /// is missing or invalid), system (the address is in use), forked.
  explicit Publisher(World& world, const PublisherOptions& options = {});
  Publisher(Publisher&&) noexcept;
  /// Disconnects all subscribers at once; their pulls end with Code::peer_left.
  ~Publisher();

  /// Creates a publication of tensors with these specs. Throws Error: duplicate_name, bad_argument,
  /// exhausted, forked.
  Publication publication(const std::string& name, std::vector<PublishedTensor> specs,
                          const PublicationOptions& options = {});

  /// The addresses at which subscribers connect, separated by commas: "10.0.0.1:4711".
  const std::string& address() const noexcept;
  /// Number of connected subscribers.
  int subscribers() const noexcept;
  /// Number of connections rejected because the peer did not know the token or sent anything else.
  std::uint64_t rejected_connections() const noexcept;

  /// Accepts no more subscribers, gives each connected one the newest version at its next request,
  /// then tells it that the publisher has left (Code::peer_left). Connected is also one whose
  /// Reader::join() is under way: it still subscribes. Returns when all have gone. Errors: timeout
  /// (says how many have not gone), forked.
  Status leave(Deadline deadline = {}) noexcept;

 private:
  std::unique_ptr<detail::PublisherState> state_;
};

/// Where a reader finds the publisher. Empty fields are taken from the environment.
struct ReaderOptions {
  std::string address{};     ///< as WEFT_SUBSCRIBE_ADDR
  std::string token_file{};  ///< as WEFT_SUBSCRIBE_TOKEN_FILE
};

/// Counters of one reader since it joined.
struct ReaderStatistics {
  std::uint64_t full_taken = 0;      ///< versions received with all rows
  std::uint64_t deltas_taken = 0;    ///< versions received as changed rows
  std::uint64_t bytes_received = 0;  ///< payload
  std::uint64_t bytes_copied = 0;    ///< bytes copied from one of its buffers to the other
  std::uint64_t begun_anew = 0;      ///< versions overwritten before they had arrived completely
};

/// The subscriber's end of one publication; needs no world. Versions are complete and never
/// decrease. After peer_failed or peer_left a reader is unusable: join again once there is a
/// publisher. Thread-safety: one thread at a time; tensors that tensor() returned may be read by
/// other threads.
class WEFT_API Reader {
 public:
  /// Waits until a publisher has a publication of that name, and subscribes. Throws Error: timeout,
  /// peer_left (the publisher leaves and has no publication of that name), bootstrap (another
  /// token, or another version of weft), bad_argument, bad_config, exhausted, system.
  static Reader join(const std::string& name, const ReaderOptions& options = {},
                     Deadline deadline = {});
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  /// The publication's tensors. Valid as long as the reader.
  const std::vector<PublishedTensor>& specs() const noexcept;

  /// Receives versions in place into `tensors` (dense, one for each spec, in their order) instead
  /// of the reader's buffers. Call it before the first pull. The reader holds handles; the caller
  /// must not use the tensors during a pull. A failed pull leaves a mix of two versions in them:
  /// whole() is false until a pull succeeds. Throws Error: mismatch, bad_argument (a version was
  /// pulled already, or a tensor has no memory).
  void receive_into(std::vector<Tensor> tensors);

  /// Takes the newest version if it is newer than version(). Waits only while there is no version
  /// at all. After a timeout the next call resumes. Errors: timeout, peer_failed, peer_left (the
  /// publisher left), closed (the publication was closed).
  Status pull_latest(Deadline deadline = {}) noexcept;
  /// As pull_latest(), but waits until there is a version newer than version().
  Status pull_newer(Deadline deadline = {}) noexcept;

  /// The version that was pulled last; 0 before the first pull.
  std::uint64_t version() const noexcept;
  /// The `step` that the publisher gave that version.
  std::uint64_t step() const noexcept;
  /// True if the tensors hold one complete version.
  bool whole() const noexcept;

  /// The tensor `name` of version(). The reader has two buffers in turn, so the result stays
  /// unchanged during the next pull and until the one after it begins. With receive_into() the
  /// result is the caller's tensor. Throws Error(bad_argument) before the first pull, and for an
  /// unknown name, listing the known ones.
  Tensor tensor(const std::string& name) const;
  ReaderStatistics statistics() const noexcept;

 private:
  explicit Reader(std::unique_ptr<detail::ReaderState> state) noexcept;
  std::unique_ptr<detail::ReaderState> state_;
};

}  // namespace weft::pslib
