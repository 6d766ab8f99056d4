#include "pslib/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "pslib/checkpoint/checked_json.hpp"

namespace weft::pslib {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "weft-checkpoint/1";
constexpr const char* kDigest = "xxh3";
constexpr std::size_t kVersionDigits = 20;
constexpr std::uint64_t kLargestManifest = 16 << 20;

std::string digest_of(const std::string& words) { return digest(std::as_bytes(std::span(words))); }

Json shape_json(const Shape& shape) {
  Json json = Json::array();
  for (std::size_t i = 0; i < shape.dims(); ++i) json.push_back(shape[i]);
  return json;
}

Json to_json(const Manifest& manifest) {
  Json json{{"format", kFormat},     {"version", manifest.version}, {"updates", manifest.updates},
            {"rule", manifest.rule}, {"states", manifest.states},   {"tensors", Json::array()},
            {"files", Json::array()}};
  for (const TensorSpec& spec : manifest.tensors)
    json["tensors"].push_back({{"name", spec.name}, {"shape", shape_json(spec.shape)}});
  if (const auto& rows = manifest.rows)
    json["rows"] = {{"dim", rows->dim},
                    {"seed", rows->seed},
                    {"spread", rows->spread},
                    {"admit_after", rows->admit_after},
                    {"expire_after", rows->expire_after}};
  if (manifest.variables) {
    json["variables"] = Json::array();
    for (const SavedVariable& variable : *manifest.variables)
      json["variables"].push_back({{"name", variable.name},
                                   {"dtype", weft::name(variable.dtype)},
                                   {"shape", shape_json(variable.shape)}});
  }
  return json;
}

Shape shape_in(const CheckedJson& json, const Json& tensor) {
  const auto sizes = json.numbers(tensor, "shape");
  std::vector<std::int64_t> dims;
  for (const std::uint64_t size : sizes) dims.push_back(static_cast<std::int64_t>(size));
  try {
    return Shape(dims);
  } catch (const Error& error) {
    json.refuse(error.detail().message);
  }
}

DType dtype_in(const CheckedJson& json, const Json& variable) {
  const std::string word = json.text(variable, "dtype");
  for (auto dtype = DType::f64; dtype <= DType::boolean;
       dtype = static_cast<DType>(static_cast<int>(dtype) + 1))
    if (weft::name(dtype) == word) return dtype;
  json.refuse(fmt::format("there is no dtype {}", word));
}

Manifest manifest_in(const CheckedJson& json) {
  const Json& root = json.root();
  Manifest manifest;
  manifest.version = json.number(root, "version");
  manifest.updates = json.number(root, "updates");
  manifest.rule = json.text(root, "rule");
  manifest.states = json.number(root, "states");
  for (const Json& tensor : json.list(root, "tensors"))
    manifest.tensors.push_back({json.text(tensor, "name"), shape_in(json, tensor)});
  if (const auto rows = root.find("rows"); rows != root.end())
    manifest.rows = {.dim = json.number(*rows, "dim"),
                     .seed = json.number(*rows, "seed"),
                     .spread = json.real(*rows, "spread"),
                     .admit_after = json.number(*rows, "admit_after"),
                     .expire_after = json.number(*rows, "expire_after")};
  if (root.contains("variables")) {
    manifest.variables.emplace();
    for (const Json& variable : json.list(root, "variables"))
      manifest.variables->push_back(
          {json.text(variable, "name"), dtype_in(json, variable), shape_in(json, variable)});
  }
  return manifest;
}

}  // namespace

std::string version_name(std::uint64_t version) {
  return fmt::format("{:0{}}", version, kVersionDigits);
}

std::string shard_name(std::size_t server, std::size_t servers) {
  return fmt::format("shard-{:04}-of-{:04}.safetensors", server, servers);
}

std::optional<std::uint64_t> version_of(const std::string& name) {
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  if (name.size() != kVersionDigits || error != std::errc{} || end != name.data() + name.size())
    return std::nullopt;
  return version;
}

std::string manifest_text(const Manifest& manifest, std::span<const ListedFile> files) {
  Json json = to_json(manifest);
  for (const ListedFile& file : files)
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.seal.bytes}, {"header", file.seal.header}});
  json[kDigest] = digest_of(json.dump());
  // No newline at the end: a truncation of even one byte must be detected.
  return json.dump(1);
}

ReadManifest read_manifest(const os::Fd& file, const std::filesystem::path& at) {
  const std::uint64_t bytes = file_bytes(file, at);
  if (bytes > kLargestManifest)
    refuse_file(at, kLargestManifest, fmt::format("it has {} bytes, which no manifest has", bytes));
  std::string words(bytes, '\0');
  read_exactly(file, at, 0, std::as_writable_bytes(std::span(words)));
  CheckedJson json(at, 0, words);
  const std::string seal = json.text(json.root(), kDigest);
  json.root().erase(kDigest);
  if (seal != digest_of(json.dump())) json.refuse("it does not match its digest");
  if (const std::string format = json.text(json.root(), "format"); format != kFormat)
    json.refuse(fmt::format("its format is {}, not {}", format, kFormat));
  ReadManifest read{.manifest = manifest_in(json), .files = {}};
  const Json& listed = json.list(json.root(), "files");
  for (const Json& each : listed) {
    const std::string expected = shard_name(read.files.size(), listed.size());
    if (json.text(each, "name") != expected)
      json.refuse(fmt::format("the name of its file {} is not {}", read.files.size(), expected));
    read.files.push_back({expected, {json.number(each, "bytes"), json.text(each, "header")}});
  }
  return read;
}

}  // namespace weft::pslib
