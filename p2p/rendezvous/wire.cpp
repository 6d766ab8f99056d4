#include "p2p/rendezvous/wire.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "p2p/memory/arena.hpp"

namespace weft::p2p::rendezvous {
namespace {

/// Bit of an error's code: it was given to send_error().
constexpr unsigned kByApplication = 0x80;

struct Head {
  std::uint16_t bytes = 0;  ///< size of the whole message
  std::uint8_t type = 0;
  std::uint8_t count = 0;
  std::uint32_t group = 0;
  std::uint32_t generation = 0;
};
static_assert(sizeof(Head) == 12);

// Flags of an Ask: the optional fields it carries.
constexpr std::uint8_t kHasIndex = 1;
constexpr std::uint8_t kHasName = 2;
constexpr std::uint8_t kHasMetadata = 4;
constexpr std::uint8_t kHasDestination = 8;

class Out {
 public:
  explicit Out(std::span<std::byte> to) noexcept : to_(to) {}

  template <typename T>
  void value(T value) noexcept {
    static_assert(std::is_integral_v<T>);
    bytes(&value, sizeof value);
  }
  void text(std::string_view text) noexcept {
    value(static_cast<std::uint8_t>(text.size()));
    bytes(text.data(), text.size());
  }
  void place(const MemoryRef& ref) noexcept {
    value(ref.chunk);
    value(ref.offset);
    value(ref.bytes);
  }
  void metadata(const Metadata& metadata) noexcept {
    value(static_cast<std::uint8_t>(metadata.dtype));
    value(static_cast<std::uint8_t>(metadata.shape.dims()));
    value(static_cast<std::uint8_t>(metadata.dead ? 1 : 0));
    value(metadata.codec);
    for (std::size_t i = 0; i < metadata.shape.dims(); ++i) value(metadata.shape[i]);
  }
  bool fits() const noexcept { return fits_; }
  std::size_t used() const noexcept { return used_; }

 private:
  void bytes(const void* from, std::size_t count) noexcept {
    if (count > to_.size() - used_) {
      fits_ = false;
      return;
    }
    if (count != 0) std::memcpy(to_.data() + used_, from, count);
    used_ += count;
  }

  std::span<std::byte> to_;
  std::size_t used_ = 0;
  bool fits_ = true;
};

class In {
 public:
  explicit In(std::span<const std::byte>& from) noexcept : from_(from) {}

  template <typename T>
  T value() noexcept {
    T value{};
    if (sizeof value > from_.size()) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, from_.data(), sizeof value);
    from_ = from_.subspan(sizeof value);
    return value;
  }
  std::string_view text(std::size_t longest) noexcept {
    const std::size_t count = value<std::uint8_t>();
    if (count > from_.size() || count > longest) {
      ok_ = false;
      return {};
    }
    const std::string_view text(reinterpret_cast<const char*>(from_.data()), count);
    from_ = from_.subspan(count);
    return text;
  }
  /// The receiver's memory for the tensor, which always lies in its data arena.
  MemoryRef destination() noexcept {
    const MemoryRef ref = place();
    if (ref.bytes != 0 && sort_of_chunk(ref.chunk) != ArenaSort::data) ok_ = false;
    return ref;
  }
  MemoryRef place() noexcept {
    MemoryRef ref;
    ref.chunk = value<std::uint32_t>();
    ref.offset = value<std::uint64_t>();
    ref.bytes = value<std::uint64_t>();
    return ref;
  }
  Metadata metadata() noexcept {
    Metadata metadata;
    const auto dtype = value<std::uint8_t>();
    const std::size_t dims = value<std::uint8_t>();
    const auto dead = value<std::uint8_t>();
    metadata.codec = value<std::uint16_t>();
    if (dtype > static_cast<std::uint8_t>(DType::boolean) || dims > Shape::kMaxDims || dead > 1) {
      ok_ = false;
      return {};
    }
    std::array<std::int64_t, Shape::kMaxDims> dim{};
    for (std::size_t i = 0; i < dims; ++i) dim[i] = value<std::int64_t>();
    metadata.dtype = static_cast<DType>(dtype);
    metadata.dead = dead == 1;
    try {
      metadata.shape = Shape(std::span<const std::int64_t>(dim.data(), dims));
    } catch (const Error&) {  // thrown if negative, or more elements than memory can hold
      ok_ = false;
    }
    return metadata;
  }
  std::uint32_t item() noexcept {
    const std::uint32_t item = value<std::uint8_t>();
    if (item >= kGroupItems) ok_ = false;
    return item;
  }
  void refuse() noexcept { ok_ = false; }
  bool ok() const noexcept { return ok_; }

 private:
  std::span<const std::byte>& from_;
  bool ok_ = true;
};

std::uint8_t item_byte(std::uint32_t item) noexcept { return static_cast<std::uint8_t>(item); }

}  // namespace

MessageWriter::MessageWriter(std::span<std::byte> buffer, RendezvousMessage type,
                             std::uint32_t group, std::uint32_t generation) noexcept
    : buffer_(buffer), type_(type), group_(group), generation_(generation), used_(sizeof(Head)) {}

template <typename Write>
bool MessageWriter::record(const Write& write) noexcept {
  Out out(buffer_.subspan(used_));
  write(out);
  if (!out.fits() || count_ == kGroupItems) return false;
  used_ += out.used();
  ++count_;
  return true;
}

bool MessageWriter::add(const Hello& record) noexcept {
  return this->record([&](Out& out) {
    out.value(record.protocol);
    out.value(record.groups);
    out.place(record.words);
    out.value(record.notification_id);
  });
}

bool MessageWriter::add(const Ask& record) noexcept {
  return this->record([&](Out& out) {
    out.value(item_byte(record.item));
    out.value(static_cast<std::uint8_t>((record.index ? kHasIndex : 0) |
                                        (record.name.empty() ? 0 : kHasName) |
                                        (record.metadata ? kHasMetadata : 0) |
                                        (record.destination.bytes == 0 ? 0 : kHasDestination)));
    out.value(record.step);
    if (record.index) out.value(*record.index);
    if (!record.name.empty()) out.text(record.name);
    if (record.metadata) out.metadata(*record.metadata);
    if (record.destination.bytes != 0) out.place(record.destination);
  });
}

bool MessageWriter::add(const MetadataAnswer& record) noexcept {
  return this->record([&](Out& out) {
    out.value(item_byte(record.item));
    out.metadata(record.metadata);
  });
}

bool MessageWriter::add(const AskAgain& record) noexcept {
  return this->record([&](Out& out) {
    out.value(item_byte(record.item));
    out.place(record.destination);
  });
}

bool MessageWriter::add(const ErrorAnswer& record) noexcept {
  return this->record([&](Out& out) {
    out.value(item_byte(record.item));
    const unsigned origin = record.by_application ? kByApplication : 0;
    out.value(static_cast<std::uint8_t>(static_cast<unsigned>(record.code) | origin));
    out.text(record.text.substr(0, kMaxErrorText));
  });
}

bool MessageWriter::add(const CancelAsk& record) noexcept {
  return this->record([&](Out& out) { out.value(item_byte(record.item)); });
}

std::span<std::byte> MessageWriter::finish() noexcept {
  const Head head{.bytes = static_cast<std::uint16_t>(used_),
                  .type = static_cast<std::uint8_t>(type_),
                  .count = static_cast<std::uint8_t>(count_),
                  .group = group_,
                  .generation = generation_};
  std::memcpy(buffer_.data(), &head, sizeof head);
  return buffer_.first(used_);
}

MessageReader::MessageReader(std::span<const std::byte> bytes) noexcept {
  Head head;
  if (bytes.size() < sizeof head) return;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.bytes < sizeof head || head.bytes > bytes.size() || head.count == 0 ||
      head.count > kGroupItems || head.group >= kMaxGroups ||
      head.type > static_cast<std::uint8_t>(RendezvousMessage::cancel) ||
      head.type == static_cast<std::uint8_t>(RendezvousMessage::tensor))
    return;
  rest_ = bytes.subspan(sizeof head, head.bytes - sizeof head);
  type_ = static_cast<RendezvousMessage>(head.type);
  group_ = head.group;
  generation_ = head.generation;
  left_ = head.count;
  valid_ = true;
}

template <typename Record, typename Read>
std::optional<Record> MessageReader::record(RendezvousMessage type, const Read& read) noexcept {
  if (!valid_ || left_ == 0) return std::nullopt;
  In in(rest_);
  Record record = read(in);
  --left_;
  if (type != type_ || !in.ok() || (left_ == 0 && !rest_.empty())) {
    valid_ = false;
    return std::nullopt;
  }
  return record;
}

std::optional<Hello> MessageReader::hello() noexcept {
  return record<Hello>(RendezvousMessage::hello, [](In& in) {
    Hello hello;
    hello.protocol = in.value<std::uint32_t>();
    hello.groups = in.value<std::uint32_t>();
    hello.words = in.place();
    hello.notification_id = in.value<std::uint32_t>();
    if (hello.protocol != kProtocol || hello.groups == 0 || hello.groups > kMaxGroups ||
        hello.words.bytes != hello.groups * kGroupBytes)
      in.refuse();
    return hello;
  });
}

std::optional<Ask> MessageReader::ask() noexcept {
  return record<Ask>(RendezvousMessage::tensor_request, [](In& in) {
    Ask ask;
    ask.item = in.item();
    const auto flags = in.value<std::uint8_t>();
    ask.step = in.value<std::uint64_t>();
    if ((flags & kHasIndex) != 0) ask.index = in.value<std::uint32_t>();
    if ((flags & kHasName) != 0) ask.name = in.text(kMaxKey);
    if ((flags & kHasMetadata) != 0) ask.metadata = in.metadata();
    if ((flags & kHasDestination) != 0) ask.destination = in.destination();
    const std::size_t wanted = ask.metadata ? ask.metadata->bytes() : 0;
    if ((!ask.index && ask.name.empty()) || ((flags & kHasName) != 0 && ask.name.empty()) ||
        ask.destination.bytes != wanted)
      in.refuse();
    return ask;
  });
}

std::optional<MetadataAnswer> MessageReader::metadata() noexcept {
  return record<MetadataAnswer>(RendezvousMessage::meta_data_response, [](In& in) {
    MetadataAnswer answer;
    answer.item = in.item();
    answer.metadata = in.metadata();
    return answer;
  });
}

std::optional<AskAgain> MessageReader::ask_again() noexcept {
  return record<AskAgain>(RendezvousMessage::tensor_re_request, [](In& in) {
    AskAgain ask;
    ask.item = in.item();
    ask.destination = in.destination();
    return ask;
  });
}

std::optional<ErrorAnswer> MessageReader::error() noexcept {
  return record<ErrorAnswer>(RendezvousMessage::error_status, [](In& in) {
    ErrorAnswer answer;
    answer.item = in.item();
    const auto word = in.value<std::uint8_t>();
    const unsigned code = word & ~kByApplication;
    answer.by_application = (word & kByApplication) != 0;
    answer.text = in.text(kMaxErrorText);
    if (code == 0 || code > static_cast<unsigned>(Code::partitioned)) in.refuse();
    answer.code = static_cast<Code>(code);
    return answer;
  });
}

std::optional<CancelAsk> MessageReader::cancel() noexcept {
  return record<CancelAsk>(RendezvousMessage::cancel,
                           [](In& in) { return CancelAsk{.item = in.item()}; });
}

}  // namespace weft::p2p::rendezvous
