#include "pslib/checkpoint/shard_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace weft::pslib {
namespace {

static_assert(std::endian::native == std::endian::little);

using Json = nlohmann::json;

constexpr std::size_t kBlock = 1 << 20;
constexpr std::uint64_t kLargestHeader = 100 << 20;  // as safetensors has it
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kBlocks = "weft.xxh3";

/// Cuts what it is given into blocks, whatever the pieces are.
class BlockDigests {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (filling_.empty() && bytes.size() >= kBlock) {
        digests_.push_back(digest(bytes.first(kBlock)));
        bytes = bytes.subspan(kBlock);
        continue;
      }
      const std::size_t taken = std::min(bytes.size(), kBlock - filling_.size());
      filling_.insert(filling_.end(), bytes.begin(), bytes.begin() + static_cast<long>(taken));
      bytes = bytes.subspan(taken);
      if (filling_.size() == kBlock) close();
    }
  }
  std::vector<std::string> finish() {
    if (!filling_.empty()) close();
    return std::move(digests_);
  }

 private:
  void close() {
    digests_.push_back(digest(filling_));
    filling_.clear();
  }

  std::vector<std::byte> filling_;
  std::vector<std::string> digests_;
};

std::string with_length(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}

std::string header_of(std::span<const StoredArray> arrays) {
  Json header;
  BlockDigests digests;
  std::uint64_t offset = 0;
  for (const StoredArray& array : arrays) {
    const std::uint64_t end = offset + array.values.size_bytes();
    header[array.name] = {
        {"dtype", "F32"}, {"shape", {array.values.size()}}, {"data_offsets", {offset, end}}};
    digests.add(std::as_bytes(array.values));
    offset = end;
  }
  header[kMetadata] = {{kBlocks, fmt::format("{}", fmt::join(digests.finish(), " "))}};
  return with_length(header.dump());
}

}  // namespace

void write_shard_file(const std::filesystem::path& path, std::span<const StoredArray> arrays,
                      const Failpoint& failpoint) {
  const std::string header = header_of(arrays);
  DurableFile file(path, 0, failpoint);
  file.append(std::as_bytes(std::span(header)));
  for (const StoredArray& array : arrays) file.append(std::as_bytes(array.values));
  file.commit();
}

ShardFile::ShardFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_to_read(path_)) {
  seal_.bytes = file_bytes(file_, path_);
  read_header();
}

void ShardFile::read_header() {
  std::uint64_t length = 0;
  read_exactly(file_, path_, 0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLargestHeader)
    refuse_file(path_, 0, fmt::format("a header of {} bytes, which is none", length));
  std::string bytes(sizeof length + length, '\0');
  read_exactly(file_, path_, 0, std::as_writable_bytes(std::span(bytes)));
  seal_.header = digest(std::as_bytes(std::span(bytes)));
  data_ = bytes.size();
  std::uint64_t end = 0;
  try {
    const Json header = Json::parse(bytes.begin() + sizeof length, bytes.end());
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        std::istringstream words(value.at(kBlocks).get<std::string>());
        for (std::string word; words >> word;) blocks_.push_back(word);
        continue;
      }
      const auto from = value.at("data_offsets").at(0).get<std::uint64_t>();
      const auto to = value.at("data_offsets").at(1).get<std::uint64_t>();
      const auto elements = value.at("shape").at(0).get<std::int64_t>();
      if (value.at("dtype") != "F32" || elements < 0 || to < from ||
          to - from != static_cast<std::uint64_t>(elements) * sizeof(float))
        refuse_file(path_, sizeof length, fmt::format("array \"{}\" makes no sense", name));
      arrays_[name] = {data_ + from, elements};
      end = std::max(end, to);
    }
  } catch (const Json::exception& error) {
    refuse_file(path_, sizeof length, fmt::format("no header of a checkpoint: {}", error.what()));
  }
  if (seal_.bytes != data_ + end)
    refuse_file(path_, std::min(seal_.bytes, data_ + end),
                fmt::format("it has {} bytes and should have {}", seal_.bytes, data_ + end));
  if (blocks_.size() != (end + kBlock - 1) / kBlock)
    refuse_file(path_, sizeof length, "the blocks' digests are not as many as the blocks");
}

void ShardFile::verify() const {
  std::vector<std::byte> buffer(kBlock);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::uint64_t from = data_ + i * kBlock;
    const auto block = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, seal_.bytes - from)));
    read_exactly(file_, path_, from, block);
    if (digest(block) != blocks_[i])
      refuse_file(path_, from,
                  fmt::format("the next {} bytes are not what was written", block.size()));
  }
}

void ShardFile::read(const Entry& entry, std::int64_t first, std::span<float> to) const {
  read_exactly(file_, path_, entry.offset + static_cast<std::uint64_t>(first) * sizeof(float),
               std::as_writable_bytes(to));
}

}  // namespace weft::pslib
