#include "pslib/checkpoint/checkpoint.hpp"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"

namespace weft::pslib {
namespace {

/// An array's name, parsed from its end: a tensor's name may itself look like an array's.
struct ArrayPlace {
  std::string tensor;
  std::int64_t first = 0;
  std::optional<std::size_t> state{};
};

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text.front() == '-' || error != std::errc{} ||
      end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::string_view take_last(std::string_view& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == name.npos) return {};
  const std::string_view last = name.substr(slash + 1);
  name = name.substr(0, slash);
  return last;
}

std::optional<ArrayPlace> place_of(std::string_view name) {
  constexpr std::string_view kState = "state";
  ArrayPlace place;
  std::string_view last = take_last(name);
  if (last.starts_with(kState)) {
    place.state = number_in<std::size_t>(last.substr(kState.size()));
    if (!place.state) return std::nullopt;
    last = take_last(name);
  }
  const auto first = number_in<std::int64_t>(last);
  if (!first) return std::nullopt;
  place.first = *first;
  place.tensor = name;
  return place;
}

std::string text_of(const std::string& tensor, std::optional<std::size_t> state) {
  return state ? fmt::format("{}/state{}", tensor, *state) : tensor;
}

}  // namespace

std::string array_name(const std::string& tensor, std::int64_t first) {
  return fmt::format("{}/{}", tensor, first);
}

std::string array_name(const std::string& tensor, std::int64_t first, std::size_t state) {
  return fmt::format("{}/{}/state{}", tensor, first, state);
}

bool seal_checkpoint(const os::Folder& table, const os::Folder& version, const Manifest& manifest,
                     std::size_t servers, const Failpoint& failpoint) {
  std::vector<ListedFile> files;
  for (std::size_t i = 0; i < servers; ++i) {
    const std::string name = shard_name(i, servers);
    if (!version.has(name)) return false;
    files.push_back({name, ShardFile(version, name).seal()});
  }
  const std::string words = manifest_text(manifest, files);
  DurableFile file(version, kManifestName, failpoint);
  file.append(std::as_bytes(std::span(words)));
  file.commit();
  table.sync();
  return true;
}

Checkpoint::Checkpoint(const os::Folder& table, std::uint64_t version)
    : at_(table.path() / version_name(version) / kManifestName) {
  const os::Folder folder = table.below(version_name(version));
  auto manifest = folder.find_file(kManifestName);
  if (!manifest) refuse_file(at_, 0, "it is not there: the checkpoint was never finished");
  lock_ = *std::move(manifest);
  // On a file system without locks, continue: the process that removes checkpoints can't lock
  // either.
  if (::flock(lock_.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    refuse_file(at_, 0, "a job is about to remove it");
  struct stat about {};
  if (::fstat(lock_.get(), &about) != 0) os::throw_system_error("restore", at_.native(), errno);
  if (about.st_nlink == 0) refuse_file(at_, 0, "a job has just removed it");
  ReadManifest read = read_manifest(lock_, at_);
  manifest_ = std::move(read.manifest);
  if (manifest_.version != version)
    refuse_file(at_, 0, fmt::format("it is of version {}", manifest_.version));
  open_files(folder, read.files);
  if (manifest_.rows) {
    check_rows();
  } else if (manifest_.variables) {
    index_variables();
  } else {
    index_runs();
    check_runs();
  }
}

void Checkpoint::open_files(const os::Folder& folder, std::span<const ListedFile> listed) {
  files_.reserve(listed.size());  // runs_ holds pointers into files_
  for (const ListedFile& file : listed) {
    const std::filesystem::path path = folder.path() / file.name;
    if (!folder.has(file.name)) refuse_file(path, 0, "it is not there");
    const FileSeal& found = files_.emplace_back(folder, file.name).seal();
    if (found.bytes != file.seal.bytes)
      refuse_file(path, std::min(found.bytes, file.seal.bytes),
                  fmt::format("it has {} bytes and should have {}", found.bytes, file.seal.bytes));
    if (found.header != file.seal.header)
      refuse_file(path, 0, "its header does not match its digest");
  }
}

void Checkpoint::index_runs() {
  for (const ShardFile& file : files_)
    for (const auto& [name, entry] : file.arrays()) {
      const auto place = place_of(name);
      if (!place || entry.type != StoredType::f32)
        refuse_file(file.path(), sizeof(std::uint64_t),
                    fmt::format("array \"{}\" belongs to no tensor", name));
      if (entry.elements == 0) continue;
      Runs& runs = runs_[{place->tensor, place->state}];
      if (!runs.emplace(place->first, Run{&file, &entry}).second)
        refuse_file(file.path(), sizeof(std::uint64_t),
                    fmt::format("array \"{}\" is there twice", name));
    }
}

// Checks that each element of each tensor and state occurs exactly once, and that nothing else
// does.
void Checkpoint::check_runs() const {
  std::size_t known = 0;
  for (const TensorSpec& spec : manifest_.tensors)
    for (std::size_t i = 0; i <= manifest_.states; ++i) {
      const auto state = i == 0 ? std::nullopt : std::optional(i - 1);
      const auto found = runs_.find({spec.name, state});
      std::int64_t next = 0;
      if (found != runs_.end()) {
        ++known;
        for (const auto& [first, run] : found->second) {
          if (first != next || run.entry->elements > spec.shape.elements() - next)
            refuse_file(run.file->path(), sizeof(std::uint64_t),
                        fmt::format("it has elements of \"{}\" from {} on, which are elsewhere, do "
                                    "not follow element {}, or are more than there are",
                                    text_of(spec.name, state), first, next - 1));
          next += run.entry->elements;
        }
      }
      if (next < spec.shape.elements())
        refuse_file(
            at_, 0,
            fmt::format("no file has element {} of \"{}\"", next, text_of(spec.name, state)));
    }
  if (known != runs_.size()) refuse_file(at_, 0, "a file has arrays of other tensors");
}

// Checks that the arrays pslib/sparse reads exist and have matching shapes.
void Checkpoint::check_rows() const {
  const SavedRows& rows = *manifest_.rows;
  if (!manifest_.tensors.empty()) refuse_file(at_, 0, "it lists both rows and tensors");
  for (const ShardFile& file : files_) {
    const auto size_of = [&](const char* name, std::size_t dims) {
      const auto found = file.arrays().find(name);
      if (found == file.arrays().end() || found->second.shape.size() != dims)
        refuse_file(file.path(), sizeof(std::uint64_t),
                    fmt::format("it has no array \"{}\" of {} dimensions", name, dims));
      return found->second.shape.front();
    };
    const std::uint64_t all = size_of("ids", 1);
    const std::uint64_t stored = size_of("rows", 3);
    if (stored > all)
      refuse_file(file.path(), sizeof(std::uint64_t),
                  fmt::format("it has {} rows and {} ids", stored, all));
    file.array({"ids", StoredType::u64, {all}});
    file.array({"rows", StoredType::f32, {stored, 1 + manifest_.states, rows.dim}});
    file.array({"last_use", StoredType::u64, {rows.expire_after > 0 ? all : 0}});
    file.array({"lookups", StoredType::u32, {rows.admit_after > 0 ? all : 0}});
  }
}

// Finds each variable's array, and checks that there are no others.
void Checkpoint::index_variables() {
  if (!manifest_.tensors.empty()) refuse_file(at_, 0, "it lists both variables and tensors");
  std::size_t arrays = 0;
  for (const ShardFile& file : files_) arrays += file.arrays().size();
  for (const SavedVariable& variable : *manifest_.variables) {
    const auto holder = std::ranges::find_if(
        files_, [&](const ShardFile& file) { return file.arrays().contains(variable.name); });
    if (holder == files_.end())
      refuse_file(at_, 0, fmt::format("no file has variable \"{}\"", variable.name));
    std::vector<std::uint64_t> shape;
    for (std::size_t i = 0; i < variable.shape.dims(); ++i)
      shape.push_back(static_cast<std::uint64_t>(variable.shape[i]));
    const ShardFile::Entry& entry = holder->array({variable.name, stored(variable.dtype), shape});
    if (!variables_.emplace(variable.name, Run{&*holder, &entry}).second)
      refuse_file(at_, 0, fmt::format("variable \"{}\" is there twice", variable.name));
  }
  if (variables_.size() != arrays) refuse_file(at_, 0, "a file has arrays of other variables");
}

void Checkpoint::read_variable(const std::string& name, std::span<std::byte> to) const {
  const auto found = variables_.find(name);
  if (found == variables_.end())
    refuse_file(at_, 0, fmt::format("it has no variable \"{}\"", name));
  found->second.file->read(*found->second.entry, 0, to);
}

void Checkpoint::verify(std::size_t part, std::size_t parts) const {
  std::size_t all = 0;
  for (const ShardFile& file : files_) all += file.blocks();
  const std::size_t begin = all / parts * part + std::min(part, all % parts);
  const std::size_t end = begin + all / parts + (part < all % parts ? 1 : 0);
  std::size_t first = 0;
  for (const ShardFile& file : files_) {
    const std::size_t from = std::clamp(begin, first, first + file.blocks());
    const std::size_t to = std::clamp(end, first, first + file.blocks());
    file.verify(from - first, to - from);
    first += file.blocks();
  }
}

void Checkpoint::read(const std::string& tensor, std::optional<std::size_t> state,
                      std::int64_t first, std::span<float> to) const {
  const auto found = runs_.find({tensor, state});
  while (!to.empty()) {
    const Run* run = nullptr;
    std::int64_t skipped = 0;
    if (found != runs_.end()) {
      auto after = found->second.upper_bound(first);
      if (after != found->second.begin()) {
        --after;
        skipped = first - after->first;
        if (skipped < after->second.entry->elements) run = &after->second;
      }
    }
    if (run == nullptr)
      refuse_file(at_, 0,
                  fmt::format("no file has element {} of \"{}\"", first, text_of(tensor, state)));
    const std::size_t taken =
        std::min(to.size(), static_cast<std::size_t>(run->entry->elements - skipped));
    run->file->read(*run->entry, skipped, std::as_writable_bytes(to.first(taken)));
    to = to.subspan(taken);
    first += static_cast<std::int64_t>(taken);
  }
}

namespace {

std::vector<std::uint64_t> versions_in(const os::Folder& table) {
  std::vector<std::uint64_t> versions;
  for (const std::string& name : table.names())
    if (const auto version = version_of(name)) versions.push_back(*version);
  std::ranges::sort(versions, std::ranges::greater{});
  return versions;
}

}  // namespace

std::optional<Checkpoint> newest_checkpoint(const os::Folder& table, const Refused& refused,
                                            const Search& search) {
  for (const std::uint64_t version : versions_in(table)) {
    if (version > search.newest) continue;
    bool by_all = true;
    try {
      Checkpoint checkpoint(table, version);
      by_all = false;
      if (!search.is_wanted || search.is_wanted(checkpoint.manifest()))
        checkpoint.verify(search.part, search.parts);
      return checkpoint;
    } catch (const Error& error) {
      refused(version, error, by_all);
    } catch (const std::bad_alloc&) {
      refused(version,
              Error(error_detail(Code::exhausted, "restore",
                                 fmt::format("{}: no memory for its files' headers",
                                             (table.path() / version_name(version)).native()))),
              by_all);
    }
  }
  return std::nullopt;
}

}  // namespace weft::pslib
