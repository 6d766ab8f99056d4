// Fuzzes a checkpoint: the JSON of a manifest and of a file's header, then the file's data. The
// target makes the digests right, so that the content is parsed.
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "pslib/checkpoint/checkpoint.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::pslib;
using weft::fuzz::require;
using Json = nlohmann::json;

namespace {

/// This process's folder, in memory, for the whole run.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name = "/dev/shm/weft-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr);
    std::filesystem::create_directories(name + "/" + version_name(1));
    return std::filesystem::path(name);
  }();
  static const struct Removed {
    ~Removed() { std::filesystem::remove_all(made); }
  } removed;
  return made;
}

std::string hash(const std::string& bytes) { return digest(std::as_bytes(std::span(bytes))); }

/// A null Json where `text` is no JSON object; deeply nested JSON is left to the reader to refuse.
Json object_in(const std::string& text) {
  const auto look = [](int depth, Json::parse_event_t, Json&) { return depth < 20; };
  Json json = Json::parse(text, look, false);
  return json.is_object() ? json : Json();
}

std::string take_part(std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string part = text.substr(0, end);
  text.erase(0, end + 1);
  return part;
}

std::string file_of(std::string header, const std::string& data) {
  if (Json json = object_in(header); !json.is_null()) {
    std::string blocks;
    for (std::size_t at = 0; at < data.size(); at += 1 << 20)
      blocks += hash(data.substr(at, 1 << 20)) + " ";
    json["__metadata__"] = {{"weft.xxh3", blocks}};
    header = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string sealed(const std::string& manifest, const std::string& file) {
  Json json = object_in(manifest);
  if (json.is_null()) return manifest;
  if (!json.contains("files")) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    json["files"] = {{{"name", shard_name(0, 1)},
                      {"bytes", file.size()},
                      {"header", hash(file.substr(0, sizeof length + length))}}};
  }
  json.erase("xxh3");
  json["xxh3"] = hash(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

void put(const std::string& name, const std::string& bytes) {
  std::ofstream(folder() / version_name(1) / name, std::ios::binary) << bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string manifest = take_part(text);
  const std::string header = take_part(text);
  const std::string file = file_of(header, text);
  put(shard_name(0, 1), file);
  put(kManifestName, sealed(manifest, file));
  const auto refused = [](std::uint64_t, const Error& error, bool) {
    require(error.code() == Code::mismatch || error.code() == Code::system);
  };
  const auto found = newest_checkpoint(os::Folder::open(folder(), "restore"), refused);
  if (!found) return 0;
  // All of a complete checkpoint can be read.
  const Manifest& whole = found->manifest();
  for (const TensorSpec& spec : whole.tensors) {
    std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()));
    require(values.size() <= size);
    if (!whole.rows) found->read(spec.name, std::nullopt, 0, values);
  }
  if (whole.rows || !whole.variables) return 0;
  for (const SavedVariable& variable : *whole.variables) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(variable.shape.elements()) *
                                 size_of(variable.dtype));
    require(bytes.size() <= size);
    found->read_variable(variable.name, bytes);
  }
  return 0;
}
