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
#include <optional>
#include <sstream>
#include <utility>

#include "pslib/checkpoint/checked_json.hpp"

namespace weft::pslib {
namespace {

static_assert(std::endian::native == std::endian::little);

using Json = nlohmann::json;

constexpr std::size_t kBlock = 1 << 20;
constexpr std::uint64_t kLargestHeader = 100 << 20;  // the limit of safetensors
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kBlocks = "weft.xxh3";

struct TypeName {
  StoredType type;
  const char* name;
  std::uint64_t bytes;
};
// In the order of StoredType.
constexpr TypeName kTypes[] = {
    {StoredType::f64, "F64", 8},   {StoredType::f32, "F32", 4}, {StoredType::f16, "F16", 2},
    {StoredType::bf16, "BF16", 2}, {StoredType::i64, "I64", 8}, {StoredType::i32, "I32", 4},
    {StoredType::i8, "I8", 1},     {StoredType::u8, "U8", 1},   {StoredType::boolean, "BOOL", 1},
    {StoredType::u32, "U32", 4},   {StoredType::u64, "U64", 8}};
static_assert(stored(DType::boolean) == StoredType::boolean &&
              stored(DType::f32) == StoredType::f32);

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

std::uint64_t bytes_of_all(std::span<const ArraySpec> arrays) noexcept {
  std::uint64_t bytes = 0;
  for (const ArraySpec& array : arrays) bytes += array.bytes();
  return bytes;
}

// A placeholder of the same length as the final header.
std::string header_without_digests(std::span<const ArraySpec> arrays) {
  const std::vector<std::string> none((bytes_of_all(arrays) + kBlock - 1) / kBlock,
                                      std::string(digest({}).size(), '0'));
  return header_of(arrays, none);
}

}  // namespace

std::uint64_t ArraySpec::bytes() const noexcept { return product(shape) * named(type).bytes; }

/// Computes a digest per block from pieces of any size.
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

ShardFileWriter::ShardFileWriter(const os::Folder& folder, const std::string& name,
                                 std::vector<ArraySpec> arrays, const Failpoint& failpoint)
    : arrays_(std::move(arrays)),
      file_(folder, name, failpoint),
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

void write_shard_file(const os::Folder& folder, const std::string& name,
                      std::span<const StoredArray> arrays, const Failpoint& failpoint) {
  std::vector<ArraySpec> specs;
  for (const StoredArray& array : arrays)
    specs.push_back({array.name, StoredType::f32, {array.values.size()}});
  ShardFileWriter file(folder, name, std::move(specs), failpoint);
  for (const StoredArray& array : arrays) file.append(std::as_bytes(array.values));
  file.commit();
}

ShardFile::ShardFile(const os::Folder& folder, const std::string& name)
    : path_(folder.path() / name), file_(folder.read(name)) {
  seal_.bytes = file_bytes(file_, path_);
  read_header();
  check_places();
  is_verified_ = std::make_unique<std::atomic<bool>[]>(blocks_.size());
}

namespace {

// nullopt if the number of bytes exceeds 64 bits.
std::optional<std::uint64_t> bytes_of(std::span<const std::uint64_t> shape, std::uint64_t element) {
  std::uint64_t bytes = element;
  for (const std::uint64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

ShardFile::Entry entry_of(const CheckedJson& header, const std::string& name,
                          const CheckedJson::Json& value, std::uint64_t data) {
  const auto place = header.numbers(value, "data_offsets");
  ShardFile::Entry entry{.shape = header.numbers(value, "shape")};
  const auto type = std::ranges::find(kTypes, header.text(value, "dtype"), &TypeName::name);
  if (type == std::end(kTypes) || place.size() != 2 || place[1] < place[0] ||
      bytes_of(entry.shape, type->bytes) != place[1] - place[0])
    header.refuse(fmt::format("array \"{}\" makes no sense", name));
  entry.offset = data + place[0];
  entry.type = type->type;
  entry.elements = static_cast<std::int64_t>((place[1] - place[0]) / type->bytes);
  return entry;
}

}  // namespace

void ShardFile::read_header() {
  std::uint64_t length = 0;
  read_exactly(file_, path_, 0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLargestHeader)
    refuse_file(path_, 0, fmt::format("its header has an impossible length of {} bytes", length));
  if (length > seal_.bytes - sizeof length)
    refuse_file(path_, seal_.bytes, "the file ends here, before its header does");
  std::string bytes(sizeof length + length, '\0');
  read_exactly(file_, path_, 0, std::as_writable_bytes(std::span(bytes)));
  seal_.header = digest(std::as_bytes(std::span(bytes)));
  data_ = bytes.size();
  const CheckedJson header(path_, sizeof length, std::string_view(bytes).substr(sizeof length));
  for (const auto& [name, value] : header.root().items()) {
    if (name == kMetadata) {
      std::istringstream words(header.text(value, kBlocks));
      for (std::string word; words >> word;) blocks_.push_back(word);
    } else {
      arrays_[name] = entry_of(header, name, value, data_);
    }
  }
}

// Checks that the arrays lie back to back up to the file's end, with one digest per block.
void ShardFile::check_places() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto& [name, entry] : arrays_)
    places.emplace_back(entry.offset,
                        static_cast<std::uint64_t>(entry.elements) * named(entry.type).bytes);
  std::ranges::sort(places);
  std::uint64_t end = data_;
  for (const auto& [offset, bytes] : places) {
    if (offset != end || __builtin_add_overflow(offset, bytes, &end))
      refuse_file(path_, sizeof(std::uint64_t), "its arrays don't lie one behind the other");
  }
  if (seal_.bytes != end)
    refuse_file(path_, std::min(seal_.bytes, end),
                fmt::format("it has {} bytes and should have {}", seal_.bytes, end));
  if (blocks_.size() != (end - data_ + kBlock - 1) / kBlock)
    refuse_file(path_, sizeof(std::uint64_t), "it has not one digest per block");
}

void ShardFile::verify_block(std::size_t block, std::vector<std::byte>& buffer) const {
  if (is_verified_[block].load(std::memory_order_relaxed)) return;
  buffer.resize(kBlock);
  const std::uint64_t from = data_ + block * kBlock;
  const auto bytes = std::span(buffer).first(
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, seal_.bytes - from)));
  read_exactly(file_, path_, from, bytes);
  if (digest(bytes) != blocks_[block])
    refuse_file(path_, from,
                fmt::format("the next {} bytes do not match their digest", bytes.size()));
  is_verified_[block].store(true, std::memory_order_relaxed);
}

void ShardFile::verify(std::size_t first, std::size_t count) const {
  std::vector<std::byte> buffer;
  for (std::size_t block = first; block < first + count; ++block) verify_block(block, buffer);
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
  if (to.empty()) return;
  const std::uint64_t from =
      entry.offset + static_cast<std::uint64_t>(first) * named(entry.type).bytes;
  std::vector<std::byte> buffer;
  for (std::uint64_t block = (from - data_) / kBlock;
       block <= (from - data_ + to.size() - 1) / kBlock; ++block)
    verify_block(static_cast<std::size_t>(block), buffer);
  read_exactly(file_, path_, from, to);
}

}  // namespace weft::pslib
