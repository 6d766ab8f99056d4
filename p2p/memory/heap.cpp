#include "p2p/memory/heap.hpp"

#include <iterator>
#include <limits>

namespace weft::p2p {

Heap::Heap(std::size_t bytes, std::size_t granule) : granule_(granule) {
  add_spare();
  const std::size_t whole = bytes / granule * granule;
  if (whole == 0) return;
  Node node = std::move(spare_.back());
  spare_.pop_back();
  put_in(std::move(node), 0, whole);
}

std::size_t Heap::rounded(std::size_t bytes, std::size_t granule) noexcept {
  if (bytes == 0) return granule;
  const std::size_t most = std::numeric_limits<std::size_t>::max() / granule * granule;
  return bytes > most ? most : (bytes + granule - 1) / granule * granule;
}

std::optional<std::size_t> Heap::allocate(std::size_t bytes) {
  const std::size_t wanted = taken(bytes);
  const auto fit = free_by_bytes_.lower_bound({wanted, 0});
  if (fit == free_by_bytes_.end()) return std::nullopt;
  const auto [size, offset] = *fit;
  add_spare();
  Node node = take_out(free_by_offset_.find(offset));
  if (size > wanted)
    put_in(std::move(node), offset + wanted, size - wanted);
  else
    spare_.push_back(std::move(node));
  used_ += wanted;
  ++allocated_;
  return offset;
}

void Heap::release(std::size_t offset, std::size_t bytes) noexcept {
  std::size_t size = taken(bytes);
  used_ -= size;
  Node node;
  auto after = free_by_offset_.lower_bound(offset);
  if (after != free_by_offset_.end() && after->first == offset + size) {
    size += after->second;
    node = take_out(after++);
  }
  if (after != free_by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      node = take_out(before);
    }
  }
  if (node.by_offset.empty()) {
    node = std::move(spare_.back());
    spare_.pop_back();
  }
  put_in(std::move(node), offset, size);
  if (spare_.size() + free_by_offset_.size() > --allocated_ + 1) spare_.pop_back();
}

std::size_t Heap::largest_free() const noexcept {
  return free_by_bytes_.empty() ? 0 : free_by_bytes_.rbegin()->first;
}

/// A node, and room for it and for those of all free ranges.
void Heap::add_spare() {
  const std::size_t most = spare_.size() + free_by_offset_.size() + 1;
  if (most > spare_.capacity()) spare_.reserve(2 * most);
  ByOffset by_offset;
  ByBytes by_bytes;
  by_offset.emplace(0, 0);
  by_bytes.emplace(0, 0);
  spare_.push_back({by_offset.extract(by_offset.begin()), by_bytes.extract(by_bytes.begin())});
}

Heap::Node Heap::take_out(ByOffset::iterator range) noexcept {
  auto by_bytes = free_by_bytes_.extract({range->second, range->first});
  return {free_by_offset_.extract(range), std::move(by_bytes)};
}

void Heap::put_in(Node node, std::size_t offset, std::size_t bytes) noexcept {
  node.by_offset.key() = offset;
  node.by_offset.mapped() = bytes;
  node.by_bytes.value() = {bytes, offset};
  free_by_offset_.insert(std::move(node.by_offset));
  free_by_bytes_.insert(std::move(node.by_bytes));
}

}  // namespace weft::p2p
