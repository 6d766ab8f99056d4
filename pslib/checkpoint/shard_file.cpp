#include "pslib/checkpoint/shard_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
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

struct TypeName {
  StoredType type;
  const char* name;
  std::uint64_t bytes;
};
constexpr TypeName kTypes[] = {
    {StoredType::f32, "F32", 4}, {StoredType::u32, "U32", 4}, {StoredType::u64, "U64", 8}};

const TypeName& named(StoredType type) noexcept { return kTypes[static_cast<std::size_t>(type)]; }

std::uint64_t product(std::span<const std::uint64_t> shape) noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies{});
}

std::string with_length(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}

std::string header_of(std::span<const ArraySpec> arrays, const std::vector<std::string>& digests) {
  Json header;
  std::uint64_t offset = 0;
  for (const ArraySpec& array : arrays) {
    const std::uint64_t end = offset + array.bytes();
    header[array.name] = {
        {"dtype", named(array.type).name}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  header[kMetadata] = {{kBlocks, fmt::format("{}", fmt::join(digests, " "))}};
  return with_length(header.dump());
}

std::uint64_t bytes_of(std::span<const ArraySpec> arrays) noexcept {
  std::uint64_t bytes = 0;
  for (const ArraySpec& array : arrays) bytes += array.bytes();
  return bytes;
}

// As long as the header that will take its place.
std::string header_without_digests(std::span<const ArraySpec> arrays) {
  const std::vector<std::string> none((bytes_of(arrays) + kBlock - 1) / kBlock,
                                      std::string(digest({}).size(), '0'));
  return header_of(arrays, none);
}

}  // namespace

std::uint64_t ArraySpec::bytes() const noexcept { return product(shape) * named(type).bytes; }

/// Cuts what it is given into blocks, whatever the pieces are.
class ShardFileWriter::BlockDigests {
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

ShardFileWriter::ShardFileWriter(std::filesystem::path path, std::vector<ArraySpec> arrays,
                                 const Failpoint& failpoint)
    : arrays_(std::move(arrays)),
      file_(std::move(path), 0, failpoint),
      digests_(std::make_unique<BlockDigests>()) {
  const std::string header = header_without_digests(arrays_);
  file_.append(std::as_bytes(std::span(header)));
}

ShardFileWriter::~ShardFileWriter() = default;

void ShardFileWriter::append(std::span<const std::byte> bytes) {
  digests_->add(bytes);
  file_.append(bytes);
}

void ShardFileWriter::commit() {
  const std::string header = header_of(arrays_, digests_->finish());
  file_.replace_start(std::as_bytes(std::span(header)));
  file_.commit();
}

void write_shard_file(const std::filesystem::path& path, std::span<const StoredArray> arrays,
                      const Failpoint& failpoint) {
  std::vector<ArraySpec> specs;
  for (const StoredArray& array : arrays)
    specs.push_back({array.name, StoredType::f32, {array.values.size()}});
  ShardFileWriter file(path, std::move(specs), failpoint);
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
      Entry entry{.offset = data_ + from, .shape = value.at("shape")};
      const std::string dtype = value.at("dtype");
      const auto type = std::ranges::find(kTypes, dtype, &TypeName::name);
      if (type == std::end(kTypes) || to < from || to - from != product(entry.shape) * type->bytes)
        refuse_file(path_, sizeof length, fmt::format("array \"{}\" makes no sense", name));
      entry.type = type->type;
      entry.elements = static_cast<std::int64_t>(product(entry.shape));
      arrays_[name] = std::move(entry);
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

const ShardFile::Entry& ShardFile::array(const ArraySpec& spec) const {
  const auto found = arrays_.find(spec.name);
  if (found == arrays_.end() || found->second.type != spec.type ||
      found->second.shape != spec.shape)
    refuse_file(path_, sizeof(std::uint64_t),
                fmt::format("it has no array \"{}\" of {}, shape [{}]", spec.name,
                            named(spec.type).name, fmt::join(spec.shape, ", ")));
  return found->second;
}

void ShardFile::read(const Entry& entry, std::int64_t first, std::span<std::byte> to) const {
  read_exactly(file_, path_,
               entry.offset + static_cast<std::uint64_t>(first) * named(entry.type).bytes, to);
}

}  // namespace weft::pslib
