// The sender's side: tensors and requests that wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/rendezvous/key_names.hpp"
#include "p2p/rendezvous/wire.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::rendezvous {

/// What was offered under a key and step.
struct Content {
  Metadata metadata;
  Tensor tensor;       ///< where the path reaches it; none without bytes
  bool owned = false;  ///< a copy of weft's own: the caller's tensor is not lent
  Code error = Code::ok;
  std::string error_text;
};

/// What a receiver asked for.
struct Request {
  RequestId id;
  std::optional<Metadata> metadata;
  MemoryRef destination;
};

/// A request and the content that answers it.
struct Match {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  Request request;
  Content content;
};

struct OfferLimits {
  std::size_t bytes = 0;
  std::uint32_t offers = 0;
  std::uint32_t requests = 0;
};

/// Offers and requests of one receiver, matched in either order. Pure data: no I/O. In the steady
/// state it allocates nothing. Thread-safety: the caller's.
class OfferTable {
 public:
  explicit OfferTable(OfferLimits limits) noexcept : limits_(limits) {}

  enum class Outcome : std::uint8_t { parked, matched, duplicate, full };

  /// Names that are kept; those above are kept as long as something refers to them. A receiver's
  /// indices refer to as many as it keeps.
  static constexpr std::size_t kKeptKeys = 8192;
  /// The number of a name. It may have been another's, unless that has an offer or a request here,
  /// is pinned, or `in_use(number)`.
  template <typename InUse>
  std::uint32_t number_of(std::string_view name, InUse&& in_use) {
    const auto found = keys_.find_or_add(
        name, kKeptKeys, [&](std::uint32_t number) { return is_idle(number) && !in_use(number); });
    if (found.replaces) at(found.number).done = {};
    return found.number;
  }
  /// The number is referred to from outside, once more or once less.
  void pin(std::uint32_t key) { ++at(key).pins; }
  void unpin(std::uint32_t key) { --at(key).pins; }
  const KeyNames& keys() const noexcept { return keys_; }

  /// Whether offer() would be `full` for content of so many bytes.
  bool has_room(std::size_t bytes) const noexcept;
  /// Takes `content` and parks it, or matches it with a request: then `match` is both. Left as it
  /// was otherwise.
  Outcome offer(std::uint32_t key, std::uint64_t step, Content& content, Match& match);
  /// The same from the other side.
  Outcome ask(std::uint32_t key, std::uint64_t step, const Request& request, Match& match);

  /// Keeps matched content until its receiver has made room and asked again. It counts as parked,
  /// within the limits or not.
  void await(Match match);
  std::optional<Match> take_awaited(const RequestId& id);
  /// Forgets a request, and the content that was kept for it. Whether there was one.
  bool cancel(const RequestId& id);
  /// Forgets everything. Requests that nothing has answered for good, those asked again for among
  /// them.
  std::vector<RequestId> clear();

  /// Whether the caller's own tensor is still needed.
  bool lent(std::string_view name, std::uint64_t step) const noexcept;
  std::size_t offers() const noexcept { return offers_; }
  std::size_t requests() const noexcept { return requests_; }
  std::size_t parked_bytes() const noexcept { return bytes_; }
  /// The key and step that has been parked longest. Requires offers() > 0.
  KeyStep oldest() const noexcept;

 private:
  struct Entry {
    std::uint64_t step = 0;
    std::uint64_t order = 0;  ///< of the offer, among all
    bool has_content = false;
    Content content;  ///< if has_content, else
    Request request;
  };
  struct Key {
    std::vector<Entry> entries;
    DoneSteps done;
    std::uint32_t pins = 0;
  };
  struct Awaited {
    std::uint64_t order = 0;
    Match match;
  };

  Key& at(std::uint32_t key);
  bool is_idle(std::uint32_t key) const noexcept;
  static Entry* find(Key& key, std::uint64_t step) noexcept;
  static void erase(Key& key, Entry* entry) noexcept;
  void count_parked(const Content& content) noexcept;
  void count_gone(const Content& content) noexcept;

  const OfferLimits limits_;
  KeyNames keys_;
  std::deque<Key> by_key_;
  std::vector<Awaited> awaited_;
  std::size_t offers_ = 0;
  std::size_t requests_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace weft::p2p::rendezvous
