#include "p2p/memory/adopted_memory.hpp"

#include <new>

#include "p2p/progress/fences.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr std::uint32_t kMaxRegions = 1U << 24U;

std::atomic<std::uint64_t>& alive_word(const AdoptedRegion& region) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region.alive.data);
}

}  // namespace

class AdoptedMemory::Adopted final : public Storage {
 public:
  Adopted(std::shared_ptr<AdoptedMemory> owner, std::shared_ptr<void> memory,
          const AdoptedRegion& region)
      : Storage(region.data, region.bytes, owner.get()),
        owner_(std::move(owner)),
        memory_(std::move(memory)),
        region_(region) {}
  /// Releases all that refers to the memory first; `memory_` is destroyed last.
  ~Adopted() override { owner_->release(region_); }

  const AdoptedRegion& region() const noexcept { return region_; }

 private:
  const std::shared_ptr<AdoptedMemory> owner_;
  const std::shared_ptr<void> memory_;
  const AdoptedRegion region_;
};

std::shared_ptr<Storage> AdoptedMemory::adopt(std::shared_ptr<void> memory, std::size_t bytes) {
  AdoptedRegion region;
  region.data = static_cast<std::byte*>(memory.get());
  region.bytes = bytes;
  region.alive = control_->allocate(sizeof(std::uint64_t));
  try {
    const std::lock_guard lock(mutex_);
    if (next_ == kMaxRegions)
      throw Error(ErrorDetail{.code = Code::exhausted,
                              .operation = "adopt",
                              .message = "16 777 216 regions were adopted by this world",
                              .hint = "adopt large regions once, and take tensors of them"});
    region.chunk = (static_cast<std::uint32_t>(ArenaSort::adopted) << 24U) | next_;
    new (region.alive.data) std::atomic<std::uint64_t>(AdoptedRegion::alive_value(region.chunk));
    regions_.emplace(region.chunk, region);
    ++next_;
  } catch (...) {
    control_->release(region.alive);
    throw;
  }
  return std::make_shared<Adopted>(shared_from_this(), std::move(memory), region);
}

std::optional<AdoptedRegion> AdoptedMemory::region(std::uint32_t chunk) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(chunk);
  if (found == regions_.end()) return std::nullopt;
  return found->second;
}

std::optional<Block> AdoptedMemory::locate(const Tensor& tensor) const noexcept {
  if (tensor.arena() != this) return std::nullopt;
  const auto& region = static_cast<const Adopted&>(*tensor.storage()).region();
  return Block{tensor.data(), tensor.extent(), region.chunk,
               static_cast<std::uint64_t>(tensor.data() - region.data)};
}

AdoptedMemory::Listener AdoptedMemory::on_release(std::function<void(std::uint32_t)> forget) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(next_listener_, std::move(forget));
  return {shared_from_this(), next_listener_++};
}

AdoptedMemory::Listener::~Listener() {
  if (memory_ == nullptr) return;
  const std::lock_guard lock(memory_->listeners_mutex_);
  memory_->listeners_.erase(number_);
}

void AdoptedMemory::release(const AdoptedRegion& region) noexcept {
  if (control_->forked()) return;
  // A peer that reads the region during its release checks this word afterwards and discards the
  // data.
  alive_word(region).store(0, std::memory_order_release);
  full_barrier();
  {
    const std::lock_guard lock(mutex_);
    regions_.erase(region.chunk);
  }
  {
    const std::lock_guard lock(listeners_mutex_);
    for (const auto& [number, forget] : listeners_) forget(region.chunk);
  }
  control_->release(region.alive);
}

}  // namespace weft::p2p
