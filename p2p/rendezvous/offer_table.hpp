// The sender's side: offered tensors and requests, each waiting for the other.
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

/// The tensor or error offered under a key and step.
struct Content {
  Metadata metadata;
  Tensor tensor;       ///< memory the path can reach; empty if there are no bytes
  bool owned = false;  ///< true for weft's own copy; false while the caller's tensor is lent
  Code error = Code::ok;
  std::string error_text;
};

/// A receiver's request.
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

/// Matches offers and requests of one receiver, which may come in either order. Plain data without
/// I/O. Allocates nothing in the steady state. Not thread-safe.
class OfferTable {
 public:
  explicit OfferTable(OfferLimits limits) : limits_(limits) {}

  enum class Outcome : std::uint8_t { parked, matched, duplicate, full };

  /// Number of names kept for reuse; further names are kept only while something refers to them. At
  /// least as many as a receiver keeps (RequestGroups::kKeptKeys), whose indices refer to them.
  static constexpr std::size_t kKeptKeys = 8192;
  /// The number of `name`. The number may have belonged to another name, but not to one that has an
  /// offer or request here, is pinned, or is `in_use(number)`.
  template <typename InUse>
  std::uint32_t number_of(std::string_view name, InUse&& in_use) {
    const auto found = keys_.find_or_add(
        name, kKeptKeys, [&](std::uint32_t number) { return is_idle(number) && !in_use(number); });
    if (found.replaces) at(found.number).done = {};
    return found.number;
  }
  /// Count the references to a number from outside the table.
  void pin(std::uint32_t key) { ++at(key).pins; }
  void unpin(std::uint32_t key) { --at(key).pins; }
  const KeyNames& keys() const noexcept { return keys_; }

  /// False if offer() would return `full` for content of `bytes`.
  bool has_room(std::size_t bytes) const noexcept;
  /// Matches `content` with a waiting request, then `match` holds both, or parks it. Leaves
  /// `content` unchanged if the outcome is duplicate or full.
  Outcome offer(std::uint32_t key, std::uint64_t step, Content& content, Match& match);
  /// The counterpart of offer() for a request.
  Outcome ask(std::uint32_t key, std::uint64_t step, const Request& request, Match& match);

  /// Keeps matched content until its receiver has allocated memory and asked again. The content
  /// counts as parked but is never refused by the limits.
  void await(Match match);
  std::optional<Match> take_awaited(const RequestId& id);
  /// Drops a request and the content kept for it. False if there was no such request.
  bool cancel(const RequestId& id);
  /// Drops everything. Returns the requests without a final answer, among them those whose receiver
  /// was to ask again.
  std::vector<RequestId> clear();

  /// True while the caller's own tensor is still needed.
  bool lent(std::string_view name, std::uint64_t step) const noexcept;
  std::size_t offers() const noexcept { return offers_; }
  std::size_t requests() const noexcept { return requests_; }
  std::size_t parked_bytes() const noexcept { return bytes_; }
  /// Key and step of the offer that has been parked longest. Requires offers() > 0.
  KeyStep oldest() const noexcept;

 private:
  struct Entry {
    std::uint64_t step = 0;
    std::uint64_t order = 0;  ///< order of the offer among all
    bool has_content = false;
    Content content;  ///< valid if `has_content`; otherwise `request` is
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
