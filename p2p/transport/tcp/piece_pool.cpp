#include "p2p/transport/tcp/piece_pool.hpp"

#include <algorithm>
#include <limits>

namespace weft::p2p::tcp {
namespace {

/// Shorter spans say little about a rail's speed.
constexpr std::chrono::milliseconds kShortest{1};
constexpr double kWeight = 0.25;  ///< of a new measurement

}  // namespace

void PiecePool::add(const Piece& piece) {
  pieces_.push_back(piece);
  bytes_ += piece.run.iov_len;
}

void PiecePool::put_back(const Piece& piece) {
  pieces_.push_front(piece);
  bytes_ += piece.run.iov_len;
}

void PiecePool::clear() noexcept {
  pieces_.clear();
  bytes_ = 0;
}

void PiecePool::use(std::size_t rail, bool used) noexcept {
  rails_[rail] = {};
  rails_[rail].used = used;
}

bool PiecePool::may_take(std::size_t rail, Clock::time_point now) const noexcept {
  const Rail& own = rails_[rail];
  if (!own.used || pieces_.empty()) return false;
  const std::size_t piece = pieces_.front().run.iov_len;
  const std::size_t most =
      own.rate == 0 ? kFirstUnderWay
                    : std::max(kMostUnderWay, static_cast<std::size_t>(own.rate * kWindow));
  if (own.under_way > 0 && own.under_way + piece > most) return false;
  if (own.rate == 0) return true;
  // The others are done at the earliest when they have shared all that is left, or when one of them
  // has moved the piece.
  double rates = 0;
  std::size_t left = bytes_;
  double one = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    const Rail& other = rails_[i];
    if (i == rail || !other.used || other.rate == 0) continue;
    rates += other.rate;
    left += other.under_way;
    one = std::min(one, static_cast<double>(other.under_way + piece) / other.rate);
  }
  if (rates == 0) return true;
  const double others = std::max(static_cast<double>(left) / rates, one);
  if (static_cast<double>(own.under_way + piece) / own.rate <= others) return true;
  const std::chrono::duration<double> takes(static_cast<double>(piece) / own.rate);
  return own.under_way == 0 && now - own.last >= kForgets && now - own.last >= kRetryPause * takes;
}

PiecePool::Piece PiecePool::take(std::size_t rail, Clock::time_point now) noexcept {
  Rail& own = rails_[rail];
  const Piece piece = pieces_.front();
  pieces_.pop_front();
  bytes_ -= piece.run.iov_len;
  if (own.under_way == 0) {
    own.since = own.last = now;
    own.measured = 0;
  }
  own.under_way += piece.run.iov_len;
  return piece;
}

void PiecePool::arrived(std::size_t rail, std::size_t bytes, Clock::time_point now) noexcept {
  Rail& own = rails_[rail];
  own.under_way -= std::min(bytes, own.under_way);
  own.measured += bytes;
  own.last = now;
  if (now - own.since < kShortest) return;
  const double rate =
      static_cast<double>(own.measured) / std::chrono::duration<double>(now - own.since).count();
  own.rate = own.rate == 0 ? rate : (1 - kWeight) * own.rate + kWeight * rate;
  own.since = now;
  own.measured = 0;
}

}  // namespace weft::p2p::tcp
