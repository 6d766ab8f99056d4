#include "p2p/transport/tcp/record_reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/stop_point.hpp"

namespace weft::p2p::tcp {
namespace {

/// Sink for payloads that are dropped.
iovec nowhere(std::size_t bytes) noexcept {
  static thread_local std::array<std::byte, 4096> dropped;
  return {dropped.data(), std::min(bytes, dropped.size())};
}

}  // namespace

std::size_t RecordReader::collect(std::array<iovec, kMostParts + 1>& parts,
                                  std::size_t& asked) noexcept {
  std::size_t count = 0;
  std::uint64_t room = std::min<std::uint64_t>(left_, kMostBytes);
  for (std::size_t i = next_; in_payload_ && i < places_.size() && room > 0; ++i) {
    if (count == kMostParts) break;
    iovec one = {places_[i].iov_base, std::min<std::uint64_t>(places_[i].iov_len, room)};
    if (one.iov_base == nullptr) one = nowhere(one.iov_len);
    parts[count++] = one;
    asked += one.iov_len;
    room -= one.iov_len;
    if (places_[i].iov_base == nullptr) break;
  }
  // Read along the bytes that follow the payload, but no large part of another payload.
  if (in_payload_ && asked < left_) return count;
  const std::size_t more = left_ > kLarge ? sizeof(Head) : kBuffer - end_;
  parts[count++] = {buffer_.data() + end_, more};
  asked += more;
  return count;
}

/// So many bytes have come to the places.
void RecordReader::took(std::size_t bytes) noexcept {
  left_ -= bytes;
  while (bytes > 0) {
    iovec& place = places_[next_];
    const std::size_t taken = std::min(bytes, place.iov_len);
    if (place.iov_base != nullptr) place.iov_base = static_cast<std::byte*>(place.iov_base) + taken;
    place.iov_len -= taken;
    bytes -= taken;
    if (place.iov_len == 0) ++next_;
  }
}

bool RecordReader::finish(RecordSink& sink) {
  in_payload_ = false;
  if (head_.kind == Kind::piece)
    pieces_ += head_.bytes;
  else if (head_.bytes > 0)
    pieces_ = 0;
  return sink.end(head_);
}

bool RecordReader::take_buffered(RecordSink& sink) {
  for (;;) {
    if (in_payload_) {
      while (left_ > 0 && (next_ < places_.size() || buffered() > 0)) {
        if (next_ == places_.size()) {
          places_.clear();
          next_ = 0;
          if (!sink.begin(head_, head_.bytes - left_, places_)) return false;
          continue;
        }
        iovec& place = places_[next_];
        const std::size_t some = std::min({buffered(), place.iov_len, std::size_t{left_}});
        if (some == 0) break;
        if (place.iov_base != nullptr) std::memcpy(place.iov_base, buffer_.data() + begin_, some);
        begin_ += some;
        took(some);
      }
      if (left_ > 0) {
        begin_ = end_ = 0;
        if (next_ < places_.size()) return true;
        places_.clear();
        next_ = 0;
        return sink.begin(head_, head_.bytes - left_, places_);
      }
      if (!finish(sink)) return false;
    }
    if (buffered() < sizeof(Head)) break;
    const ParsedHead parsed = parse_head(std::span(buffer_).subspan(begin_).first<sizeof(Head)>());
    begin_ += sizeof(Head);
    if (!sink.accepts(parsed.head)) return false;  // first: damage makes no sense either
    if (parsed.trouble != nullptr) {
      sink.malformed(parsed.trouble);
      return false;
    }
    head_ = parsed.head;
    left_ = head_.bytes;
    places_.clear();
    next_ = 0;
    in_payload_ = true;
    if (left_ > 0 && !sink.begin(head_, 0, places_)) return false;
  }
  // The beginning of a head stays for the rest of it.
  std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
  end_ -= begin_;
  begin_ = 0;
  return true;
}

/// The end of a turn after which another one is to come.
RecordReader::State RecordReader::pause(State state) noexcept {
  pipe_.expect(in_payload_ && left_ >= kWorthTaking ? kWorthTaking : 1);
  return state;
}

RecordReader::State RecordReader::turn(RecordSink& sink, std::size_t most) {
  if (!pipe_.has_enough()) return State::drained;
  // A record may have been held up the last time.
  if (!take_buffered(sink)) return State::failed;
  for (std::size_t received = 0; received < most || pipe_.has_received();) {
    if (!in_payload_ && end_ == kBuffer) return pause(State::drained);  // the next record must wait
    std::array<iovec, kMostParts + 1> parts;
    std::size_t asked = 0;
    const std::size_t count = collect(parts, asked);
    if (in_payload_) pass_stop_point("tcp", (pieces_ + head_.bytes - left_) / kWorthTaking);
    const Pipe::Moved got = pipe_.receive(std::span(parts).first(count));
    if (got.end) return State::ended;
    if (got.error != 0) {
      error_ = got.error;
      return State::failed;
    }
    if (got.bytes == 0) return pause(State::drained);
    heard_ = true;
    received += got.bytes;
    std::size_t to_places = 0;
    if (in_payload_) {
      const std::size_t buffer_part =
          parts[count - 1].iov_base == buffer_.data() + end_ ? parts[count - 1].iov_len : 0;
      to_places = std::min(got.bytes, asked - buffer_part);
      took(to_places);
    }
    end_ += got.bytes - to_places;
    if (!take_buffered(sink)) return State::failed;
    if (got.bytes < asked) return pause(State::drained);
  }
  return pause(State::more);
}

}  // namespace weft::p2p::tcp
