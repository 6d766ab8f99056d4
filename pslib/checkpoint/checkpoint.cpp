#include "pslib/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFormat = "weft-checkpoint/1";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kDigest = "xxh3";
constexpr std::size_t kVersionDigits = 20;

std::string digest_of(const Json& json) {
  const std::string words = json.dump();
  return digest(std::as_bytes(std::span(words)));
}

Json to_json(const Manifest& manifest) {
  Json json{{"format", kFormat},     {"version", manifest.version}, {"updates", manifest.updates},
            {"rule", manifest.rule}, {"states", manifest.states},   {"tensors", Json::array()},
            {"files", Json::array()}};
  for (const TensorSpec& spec : manifest.tensors) {
    Json shape = Json::array();
    for (std::size_t i = 0; i < spec.shape.dims(); ++i) shape.push_back(spec.shape[i]);
    json["tensors"].push_back({{"name", spec.name}, {"shape", shape}});
  }
  if (const auto& rows = manifest.rows)
    json["rows"] = {{"dim", rows->dim},
                    {"seed", rows->seed},
                    {"spread", rows->spread},
                    {"admit_after", rows->admit_after},
                    {"expire_after", rows->expire_after}};
  return json;
}

std::optional<std::uint64_t> version_of(const fs::path& folder) {
  const std::string name = folder.filename();
  const bool is_number = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  if (name.size() != kVersionDigits || !is_number) return std::nullopt;
  return std::stoull(name);
}

// Those that a folder has, the newest first. None where there is no folder.
std::vector<std::uint64_t> versions_in(const fs::path& folder) {
  std::vector<std::uint64_t> versions;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (const auto version = version_of(entry.path())) versions.push_back(*version);
  std::ranges::sort(versions, std::ranges::greater{});
  return versions;
}

}  // namespace

std::string array_name(const std::string& tensor, std::int64_t first) {
  return fmt::format("{}/{}", tensor, first);
}

std::string array_name(const std::string& tensor, std::int64_t first, std::size_t state) {
  return fmt::format("{}/{}/state{}", tensor, first, state);
}

fs::path version_folder(const fs::path& folder, std::uint64_t version) {
  return folder / fmt::format("{:0{}}", version, kVersionDigits);
}

fs::path shard_path(const fs::path& folder, std::uint64_t version, std::size_t server,
                    std::size_t servers) {
  return version_folder(folder, version) /
         fmt::format("shard-{:04}-of-{:04}.safetensors", server, servers);
}

void seal_checkpoint(const fs::path& folder, const Manifest& manifest, std::size_t server,
                     std::size_t servers, const Failpoint& failpoint) {
  Json json = to_json(manifest);
  for (std::size_t i = 0; i < servers; ++i) {
    const fs::path path = shard_path(folder, manifest.version, i, servers);
    if (!fs::exists(path)) return;
    const ShardFile file(path);
    json["files"].push_back({{"name", path.filename().string()},
                             {"bytes", file.seal().bytes},
                             {"header", file.seal().header}});
  }
  json[kDigest] = digest_of(json);
  // No end of line: whatever is cut off must be missed.
  const std::string words = json.dump(1);
  DurableFile file(version_folder(folder, manifest.version) / kManifest, server, failpoint);
  file.append(std::as_bytes(std::span(words)));
  file.commit();
  sync_folder(folder);
}

Checkpoint::Checkpoint(const fs::path& folder, std::uint64_t version)
    : folder_(version_folder(folder, version)) {
  const fs::path at = folder_ / kManifest;
  if (!fs::exists(at)) refuse_file(at, 0, "it is not there: the checkpoint was never finished");
  read_manifest(at);
  if (manifest_.version != version)
    refuse_file(at, 0, fmt::format("it is of version {}", manifest_.version));
  for (const ShardFile& file : files_) file.verify();
}

void Checkpoint::read_manifest(const fs::path& at) {
  const os::Fd file = open_to_read(at);
  std::string words(file_bytes(file, at), '\0');
  read_exactly(file, at, 0, std::as_writable_bytes(std::span(words)));
  try {
    Json json = Json::parse(words);
    const auto seal = json.at(kDigest).get<std::string>();
    json.erase(kDigest);
    if (seal != digest_of(json)) refuse_file(at, 0, "it is not what was written");
    if (json.at("format") != kFormat)
      refuse_file(at, 0,
                  fmt::format("its format is {}, not {}", json.at("format").dump(), kFormat));
    manifest_.version = json.at("version");
    manifest_.updates = json.at("updates");
    manifest_.rule = json.at("rule");
    manifest_.states = json.at("states");
    for (const Json& tensor : json.at("tensors"))
      manifest_.tensors.push_back(
          {tensor.at("name"), Shape(tensor.at("shape").get<std::vector<std::int64_t>>())});
    if (const auto rows = json.find("rows"); rows != json.end())
      manifest_.rows = {.dim = rows->at("dim"),
                        .seed = rows->at("seed"),
                        .spread = rows->at("spread"),
                        .admit_after = rows->at("admit_after"),
                        .expire_after = rows->at("expire_after")};
    for (const Json& listed : json.at("files")) {
      const fs::path path = folder_ / listed.at("name").get<std::string>();
      if (!fs::exists(path)) refuse_file(path, 0, "it is not there");
      const FileSeal& found = files_.emplace_back(path).seal();
      const auto bytes = listed.at("bytes").get<std::uint64_t>();
      if (found.bytes != bytes)
        refuse_file(path, std::min(found.bytes, bytes),
                    fmt::format("it has {} bytes and should have {}", found.bytes, bytes));
      if (found.header != listed.at("header"))
        refuse_file(path, 0, "its header is not what was written");
    }
  } catch (const Json::parse_error& error) {
    refuse_file(at, error.byte, "it is no JSON from here on");
  } catch (const Json::exception& error) {
    refuse_file(at, 0, fmt::format("it lacks something: {}", error.what()));
  }
}

void Checkpoint::read(const std::string& tensor, std::optional<std::size_t> state,
                      std::int64_t first, std::span<float> to) const {
  const std::string prefix = tensor + "/";
  const std::string suffix = state ? fmt::format("/state{}", *state) : "";
  while (!to.empty()) {
    std::size_t taken = 0;
    for (const ShardFile& file : files_) {
      for (auto at = file.arrays().lower_bound(prefix);
           at != file.arrays().end() && at->first.starts_with(prefix) && taken == 0; ++at) {
        const std::string rest = at->first.substr(prefix.size());
        const std::size_t digits = rest.find_first_not_of("0123456789");
        if (rest.empty() || digits == 0) continue;
        if ((digits == rest.npos ? "" : rest.substr(digits)) != suffix) continue;
        const std::int64_t start = std::stoll(rest.substr(0, digits));
        if (at->second.type != StoredType::f32 || first < start ||
            first >= start + at->second.elements)
          continue;
        taken = std::min(to.size(), static_cast<std::size_t>(start + at->second.elements - first));
        file.read(at->second, first - start, std::as_writable_bytes(to.first(taken)));
      }
      if (taken > 0) break;
    }
    if (taken == 0)
      refuse_file(folder_ / kManifest, 0,
                  fmt::format("no file has element {} of \"{}{}\"", first, tensor, suffix));
    to = to.subspan(taken);
    first += static_cast<std::int64_t>(taken);
  }
}

std::optional<Checkpoint> newest_checkpoint(
    const fs::path& folder,
    const std::function<void(std::uint64_t version, const Error& why)>& refused) {
  for (const std::uint64_t version : versions_in(folder)) {
    try {
      return Checkpoint(folder, version);
    } catch (const Error& error) {
      refused(version, error);
    }
  }
  return std::nullopt;
}

void set_aside_newer(const fs::path& folder, std::optional<std::uint64_t> version) {
  for (const std::uint64_t found : versions_in(folder)) {
    const fs::path at = version_folder(folder, found);
    if (version && found <= *version && fs::exists(at / kManifest)) continue;
    fs::path aside = at;
    aside += ".refused";
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(at, aside, error);
    if (error) os::throw_system_error("checkpoint", at.native(), error.value());
  }
}

}  // namespace weft::pslib
