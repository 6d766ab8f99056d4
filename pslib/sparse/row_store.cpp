#include "pslib/sparse/row_store.hpp"

#include <algorithm>
#include <array>

#include "base/mix64.hpp"

namespace weft::pslib {

void initial_row(const RowRules& rules, std::uint64_t id, float* to) noexcept {
  std::uint64_t state = mix64(rules.seed + kGolden64) ^ mix64(id);
  for (std::size_t i = 0; i < rules.dim; ++i) {
    state += kGolden64;
    // 24 bits: every value is exactly representable as f32.
    const auto bits = static_cast<std::int32_t>(mix64(state) >> 40);
    to[i] = rules.spread * (static_cast<float>(bits - (1 << 23)) * 0x1p-23F);
  }
}

RowStore::RowStore(const RowRules& rules) : rules_(rules), width_(rules.dim * (1 + rules.states)) {}

void RowStore::look_up(std::uint64_t id, std::uint64_t version, float* to) {
  // A row that is neither counted nor changed needs no memory.
  std::uint32_t number = known(id, version);
  if (number == RowIndex::kNone && rules_.admit_after > 0) {
    add(id);
    number = static_cast<std::uint32_t>(ids_.size() - 1);
  }
  if (number == RowIndex::kNone) return initial_row(rules_, id, to);
  if (rules_.admit_after > 0 && lookups_[number] < rules_.admit_after) ++lookups_[number];
  if (rules_.expire_after > 0) last_use_[number] = version;
  if (is_stored(number))
    std::copy_n(at(places_[number]), rules_.dim, to);
  else
    initial_row(rules_, id, to);
}

float* RowStore::to_update(std::uint64_t id, std::uint64_t version) {
  std::uint32_t number = known(id, version);
  if (number == RowIndex::kNone) {
    if (rules_.admit_after > 0) return nullptr;
    add(id);
    number = static_cast<std::uint32_t>(ids_.size() - 1);
  }
  if (rules_.admit_after > 0 && lookups_[number] < rules_.admit_after) return nullptr;
  if (rules_.expire_after > 0) last_use_[number] = version;
  if (is_stored(number))
    keep(places_[number]);
  else
    store(number);
  return at(places_[number]);
}

// Each pass finds the data in the cache that the previous pass prefetched.
void RowStore::fetch(std::span<const std::uint64_t> ids) const noexcept {
  std::array<std::uint32_t, kMostFetched> numbers;
  for (const std::uint64_t id : ids) index_.fetch(id);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    numbers[i] = index_.guess(ids[i]);
    if (numbers[i] == RowIndex::kNone) continue;
    __builtin_prefetch(&ids_[numbers[i]]);
    __builtin_prefetch(&places_[numbers[i]]);
  }
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (numbers[i] == RowIndex::kNone || !is_stored(numbers[i])) continue;
    const float* const row = at(places_[numbers[i]]);
    for (std::size_t k = 0; k < width_; k += kLine) __builtin_prefetch(row + k, 1);
  }
}

// The number of a row; an expired row is reset first.
std::uint32_t RowStore::known(std::uint64_t id, std::uint64_t version) {
  const std::uint32_t number = index_.find(id, ids_);
  if (number == RowIndex::kNone || !is_past(number, version)) return number;
  free_place(number);
  if (rules_.admit_after > 0) lookups_[number] = 0;
  last_use_[number] = version;
  return number;
}

void RowStore::add(std::uint64_t id) {
  ids_.push_back(id);
  places_.push_back(RowIndex::kNone);
  if (rules_.admit_after > 0) lookups_.push_back(0);
  if (rules_.expire_after > 0) last_use_.push_back(0);
  index_.add_last(ids_);
}

bool RowStore::is_past(std::uint32_t number, std::uint64_t version) const noexcept {
  return rules_.expire_after > 0 && version > last_use_[number] &&
         version - last_use_[number] > rules_.expire_after;
}

void RowStore::store(std::uint32_t number) {
  take_place(number);
  float* const row = at(places_[number]);
  initial_row(rules_, ids_[number], row);
  std::fill(row + rules_.dim, row + width_, 0.0F);
}

void RowStore::take_place(std::uint32_t number) {
  if (free_places_.empty()) {
    const auto first = static_cast<std::uint32_t>(chunks_.size() * kChunk);
    chunks_.push_back(std::make_unique<float[]>(kChunk * width_));
    for (std::size_t i = kChunk; i > 0; --i)
      free_places_.push_back(first + static_cast<std::uint32_t>(i - 1));
  }
  places_[number] = free_places_.back();
  free_places_.pop_back();
  keep(places_[number]);  // the place may belong to another row in the cut
}

void RowStore::keep(std::uint32_t place) {
  if (!cut_) return;
  if (cut_->is_over())
    cut_.reset();
  else
    cut_->keep(place);
}

std::shared_ptr<RowCut> RowStore::cut() {
  std::vector<const float*> chunks;
  for (const auto& chunk : chunks_) chunks.push_back(chunk.get());
  constexpr std::size_t kLeast = 1 << 20;
  const std::size_t row = width_ * sizeof(float);
  const std::size_t most = std::max(kLeast / row, chunks_.size() * kChunk / 8);
  cut_ = std::make_shared<RowCut>(RowCut::Book{ids_, places_, lookups_, last_use_},
                                  std::move(chunks), width_, std::max<std::size_t>(most, 1));
  return cut_;
}

bool RowStore::put_back(std::uint64_t id, std::uint32_t lookups, std::uint64_t last_use,
                        const float* row) {
  if (index_.find(id, ids_) != RowIndex::kNone) return false;
  add(id);
  const auto number = static_cast<std::uint32_t>(ids_.size() - 1);
  if (rules_.admit_after > 0) lookups_[number] = lookups;
  if (rules_.expire_after > 0) last_use_[number] = last_use;
  if (row == nullptr) return true;
  take_place(number);
  std::copy_n(row, width_, at(places_[number]));
  return true;
}

void RowStore::free_place(std::uint32_t number) {
  if (!is_stored(number)) return;
  free_places_.push_back(places_[number]);
  places_[number] = RowIndex::kNone;
}

void RowStore::forget(std::uint64_t version) {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < ids_.size(); ++i) {
    if (is_past(i, version)) {
      free_place(i);
      continue;
    }
    ids_[kept] = ids_[i];
    places_[kept] = places_[i];
    if (rules_.admit_after > 0) lookups_[kept] = lookups_[i];
    if (rules_.expire_after > 0) last_use_[kept] = last_use_[i];
    ++kept;
  }
  ids_.resize(kept);
  places_.resize(kept);
  if (rules_.admit_after > 0) lookups_.resize(kept);
  if (rules_.expire_after > 0) last_use_.resize(kept);
  index_.rebuild(ids_);
}

float* RowStore::at(std::uint32_t place) const noexcept {
  return chunks_[place / kChunk].get() + place % kChunk * width_;
}

std::size_t RowStore::bytes() const noexcept {
  return index_.bytes() + (ids_.capacity() + last_use_.capacity()) * sizeof(std::uint64_t) +
         (places_.capacity() + lookups_.capacity() + free_places_.capacity()) *
             sizeof(std::uint32_t) +
         chunks_.size() * kChunk * width_ * sizeof(float);
}

}  // namespace weft::pslib
