#include "tests/sim/push_code.hpp"

#include <algorithm>
#include <cmath>

namespace weft::tests {
namespace {

using pslib::Consistency;

constexpr std::size_t kLine = 16;  // elements: where tables are cut
constexpr unsigned kExact = 24;    // bits of a float's integers

// With k_of_n any number of workers up to 4 may contribute, and 12 / n is an integer for each.
std::uint64_t unit_of(Consistency::Kind kind, std::size_t workers) {
  if (kind == Consistency::Kind::bsp) return workers;
  return kind == Consistency::Kind::k_of_n ? 12 : 1;
}

}  // namespace

PushCode::PushCode(const Consistency& consistency, std::size_t workers)
    : workers_(workers),
      cell_(consistency.kind == Consistency::Kind::k_of_n ? 3 * kLine : kLine),
      bits_(consistency.kind == Consistency::Kind::k_of_n ? 5 : 2),
      digits_(kExact / bits_),
      unit_(unit_of(consistency.kind, workers)) {}

std::size_t PushCode::element(std::size_t worker, std::size_t push) const noexcept {
  return worker * ((kMostPushes + digits_ - 1) / digits_) + (push - 1) / digits_;
}

unsigned PushCode::shift(std::size_t push) const noexcept {
  return static_cast<unsigned>((push - 1) % digits_) * bits_;
}

void PushCode::write(std::span<float> cells, std::size_t worker, std::size_t push) const {
  std::ranges::fill(cells, 0.0F);
  for (std::size_t at = element(worker, push); at < cells.size(); at += cell_)
    cells[at] = -static_cast<float>(unit_ << shift(push));
}

std::optional<PushShares> PushCode::read(std::span<const float> cell) const {
  std::vector<std::uint64_t> left;
  for (const float value : cell) {
    if (!(value >= 0) || value >= std::ldexp(1.0F, kExact) || value != std::floor(value))
      return std::nullopt;
    left.push_back(static_cast<std::uint64_t>(value));
  }
  PushShares shares(workers_ * kMostPushes);
  for (std::size_t worker = 0; worker < workers_; ++worker)
    for (std::size_t push = 1; push <= kMostPushes; ++push) {
      std::uint64_t& value = left[element(worker, push)];
      const std::uint64_t digit = value >> shift(push) & ((std::uint64_t{1} << bits_) - 1);
      value -= digit << shift(push);
      shares[share_index(worker, push)] = static_cast<std::uint8_t>(digit);
    }
  if (std::ranges::any_of(left, [](std::uint64_t value) { return value != 0; }))
    return std::nullopt;
  return shares;
}

}  // namespace weft::tests
