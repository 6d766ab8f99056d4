// An arena as a std::pmr memory resource.
#pragma once

#include <memory>
#include <memory_resource>
#include <new>

#include "p2p/memory/arena.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

class ArenaResource final : public std::pmr::memory_resource {
 public:
  explicit ArenaResource(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > Heap::kGranule || arena_->forked()) throw std::bad_alloc();
    try {
      return arena_->allocate(bytes).data;
    } catch (const Error&) {
      throw std::bad_alloc();
    }
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t) override {
    if (arena_->forked()) return;
    if (const auto block = arena_->locate(static_cast<std::byte*>(data), bytes))
      arena_->release(*block);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const std::shared_ptr<Arena> arena_;
};

}  // namespace weft::p2p
