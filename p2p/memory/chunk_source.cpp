#include "p2p/memory/chunk_source.hpp"

#include <utility>

#include "p2p/memory/memory_limits.hpp"

namespace weft::p2p {
namespace {

constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kHugePage = 2u << 20;

ChunkMemory chunk_of(Segment segment) {
  std::byte* const data = segment.mapping->data();
  return {.data = data,
          .fd = std::move(segment.fd),
          .owner = std::move(segment.mapping),
          .huge_pages_advised = segment.huge_pages_advised};
}

class SharedChunks final : public ChunkSource {
 public:
  SharedChunks(PageKind pages, std::string label, Access others,
               std::shared_ptr<SegmentMapper> mapper)
      : pages_(std::move(pages)),
        label_(std::move(label)),
        others_(others),
        mapper_(std::move(mapper)) {}

  std::size_t page() const noexcept override { return kHugePage; }
  std::optional<std::string> refusal(std::size_t bytes) const override {
    return refusal_to_grow(bytes);
  }
  ChunkMemory create(std::size_t bytes) override {
    Segment segment = create_shared_segment(bytes, pages_, label_, others_);
    mapper_->add(segment.fd, segment.mapping);
    return chunk_of(std::move(segment));
  }

 private:
  const PageKind pages_;
  const std::string label_;
  const Access others_;
  const std::shared_ptr<SegmentMapper> mapper_;
};

class PrivateChunks final : public ChunkSource {
 public:
  explicit PrivateChunks(PageKind pages) : pages_(std::move(pages)) {}

  std::size_t page() const noexcept override { return kHugePage; }
  std::optional<std::string> refusal(std::size_t bytes) const override {
    return refusal_to_grow(bytes);
  }
  ChunkMemory create(std::size_t bytes) override {
    return chunk_of(create_private_segment(bytes, pages_));
  }

 private:
  const PageKind pages_;
};

class LazyChunks final : public ChunkSource {
 public:
  std::size_t page() const noexcept override { return kSmallPage; }
  std::optional<std::string> refusal(std::size_t) const override { return std::nullopt; }
  ChunkMemory create(std::size_t bytes) override { return chunk_of(create_lazy_segment(bytes)); }
};

}  // namespace

std::unique_ptr<ChunkSource> shared_chunks(PageKind pages, std::string label, Access others,
                                           std::shared_ptr<SegmentMapper> mapper) {
  return std::make_unique<SharedChunks>(std::move(pages), std::move(label), others,
                                        std::move(mapper));
}

std::unique_ptr<ChunkSource> private_chunks(PageKind pages) {
  return std::make_unique<PrivateChunks>(std::move(pages));
}

std::unique_ptr<ChunkSource> lazy_chunks() { return std::make_unique<LazyChunks>(); }

}  // namespace weft::p2p
