// Checkpoints from an untrusted source: their digests are right, but their content is wrong. Each
// is refused with weft's Error, and the newest complete checkpoint is found.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "pslib/checkpoint/checkpoint.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/pslib/checkpoint_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using tests::TempFolder;

std::string hash(const std::string& bytes) { return digest(std::as_bytes(std::span(bytes))); }

/// A shard file with this header (the digests of its blocks are added) and data.
std::string shard_of(std::string header, const std::string& data) {
  std::string blocks;
  for (std::size_t at = 0; at < data.size(); at += 1 << 20)
    blocks += hash(data.substr(at, 1 << 20)) + " ";
  const std::string metadata = R"("__metadata__":{"weft.xxh3":")" + blocks + "\"}";
  header.insert(header.size() - 1, (header == "{}" ? "" : ",") + metadata);
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

/// A manifest of these files, with a valid digest.
std::string manifest_of(Json json, const std::vector<std::string>& files) {
  if (!json.contains("files")) {
    json["files"] = Json::array();
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::uint64_t length = 0;
      std::memcpy(&length, files[i].data(), sizeof length);
      json["files"].push_back({{"name", shard_name(i, files.size())},
                               {"bytes", files[i].size()},
                               {"header", hash(files[i].substr(0, 8 + length))}});
    }
  }
  json["xxh3"] = hash(json.dump());
  return json.dump(1);
}

Json dense(std::uint64_t version) {
  return {{"format", "weft-checkpoint/1"},
          {"version", version},
          {"updates", 1},
          {"rule", "sgd"},
          {"states", 0},
          {"tensors", {{{"name", "w"}, {"shape", {4}}}}}};
}

Json sparse(std::uint64_t version) {
  Json json = dense(version);
  json["tensors"] = Json::array();
  json["rows"] = {
      {"dim", 1}, {"seed", 0}, {"spread", 0.0}, {"admit_after", 0}, {"expire_after", 0}};
  return json;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  std::uint64_t from, std::uint64_t to) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(from) + "," + std::to_string(to) + "]}";
}

const std::string kData(16, '\1');

void put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder with a complete checkpoint of version 10; the test adds one of version 20.
class Crafted : public testing::Test {
 protected:
  void SetUp() override {
    save(10, dense(10), {shard_of("{" + entry("w/0", "F32", "[4]", 0, 16) + "}", kData)});
    ASSERT_EQ(found(), 10U) << why_;
  }
  fs::path at(std::uint64_t version) const {
    return tests::version_folder(folder_.path(), version);
  }
  void save(std::uint64_t version, const Json& manifest, const std::vector<std::string>& files) {
    for (std::size_t i = 0; i < files.size(); ++i)
      put(at(version) / shard_name(i, files.size()), files[i]);
    put(at(version) / kManifestName, manifest_of(manifest, files));
  }
  void save(const std::string& header, const std::string& data = kData) {
    save(20, dense(20), {shard_of(header, data)});
  }
  std::uint64_t found() {
    why_.clear();
    const auto found = newest_checkpoint(tests::folder_at(folder_.path()),
                                         [&](std::uint64_t version, const Error& error, bool) {
                                           if (version == 20) why_ = error.what();
                                         });
    return found ? found->manifest().version : 0;
  }
  void expect_refused(const std::string& why) {
    EXPECT_EQ(found(), 10U);
    EXPECT_NE(why_.find(why), std::string::npos) << why_;
    fs::remove_all(at(20));
  }

  const TempFolder folder_;
  std::string why_;
};

TEST_F(Crafted, IsFoundWhereNothingIsWrong) {
  save("{" + entry("w/0", "F32", "[2]", 0, 8) + "," + entry("w/2", "F32", "[2]", 8, 16) + "}");
  EXPECT_EQ(found(), 20U) << why_;
}

TEST_F(Crafted, ArraysMakeUpTheManifestsTensors) {
  save("{" + entry("w/0", "F32", "[3]", 0, 12) + "}", kData.substr(4));
  expect_refused("no file has element 3 of \"w\"");
  save("{" + entry("w/1", "F32", "[4]", 0, 16) + "}");
  expect_refused("do not follow");
  save("{" + entry("w/0", "F32", "[5]", 0, 20) + "}", kData + "1234");
  expect_refused("more than there are");
  save("{" + entry("w/0", "F32", "[4]", 0, 16) + "," + entry("v/0", "F32", "[4]", 16, 32) + "}",
       kData + kData);
  expect_refused("other tensors");
  save("{" + entry("w/0", "F32", "[4]", 0, 16) + "," + entry("w/00", "F32", "[4]", 16, 32) + "}",
       kData + kData);
  expect_refused("twice");
  save("{" + entry("w/0", "F32", "[4]", 0, 16) + "," + entry("w/3", "F32", "[1]", 16, 20) + "}",
       kData + "1234");
  expect_refused("do not follow");
}

TEST_F(Crafted, NamesOfArraysAreNumbersThatFit) {
  for (const char* name : {"w/99999999999999999999999999", "w/-1", "w/", "w", "w/0/state", "",
                           "w/0/state99999999999999999999999", "w/ 0", "w/0x1"}) {
    save("{" + entry(name, "F32", "[4]", 0, 16) + "}");
    expect_refused(shard_name(0, 1));
  }
}

TEST_F(Crafted, ArraysLieInTheirFile) {
  save("{" + entry("w/0", "F32", "[4294967296,4294967296]", 0, 0) + "}");
  expect_refused("makes no sense");
  save("{" + entry("w/0", "F32", "[4611686018427387905]", 0, 4) + "}");
  expect_refused("makes no sense");
  save("{" + entry("w/0", "F32", "[4]", 18446744073709551600ULL, 18446744073709551615ULL) + "}");
  expect_refused(shard_name(0, 1));
  save("{" + entry("w/0", "F32", "[4]", 16, 0) + "}");
  expect_refused("makes no sense");
  save("{" + entry("w/0", "F32", "[2]", 0, 8) + "," + entry("w/2", "F32", "[2]", 4, 12) + "}",
       kData.substr(4));
  expect_refused("one behind the other");
  save("{" + entry("w/0", "F16", "[8]", 0, 16) + "}");
  expect_refused("\"w/0\" belongs to no tensor");
  save("{" + entry("w/0", "F8", "[16]", 0, 16) + "}");
  expect_refused("makes no sense");
  save(R"({"w/0":{"dtype":"F32","shape":[4],"data_offsets":[0.5,1e300]}})");
  expect_refused("a number");
  save(R"({"w/0":7})");
  expect_refused("lacks");
}

TEST_F(Crafted, SparseFilesHaveTheirArrays) {
  const auto save_rows = [&](const std::string& ids, const std::string& rows) {
    save(20, sparse(20),
         {shard_of("{" + ids + "," + entry("last_use", "U64", "[0]", 12, 12) + "," +
                       entry("lookups", "U32", "[0]", 12, 12) + "," + rows + "}",
                   kData.substr(4))});
  };
  save_rows(entry("ids", "U64", "[1]", 0, 8), entry("rows", "F32", "[1,1,1]", 8, 12));
  EXPECT_EQ(found(), 20U) << why_;
  save_rows(entry("ids", "U64", "[]", 0, 8), entry("rows", "F32", "[1,1,1]", 8, 12));
  expect_refused("\"ids\" of 1 dimensions");
  save_rows(entry("ids", "U64", "[1]", 0, 8), entry("rows", "F32", "[]", 8, 12));
  expect_refused("\"rows\" of 3 dimensions");
  save_rows(entry("rows", "F32", "[1,1,1]", 8, 12), entry("idx", "U64", "[1]", 0, 8));
  expect_refused("no array \"ids\"");
  save_rows(entry("ids", "U64", "[0]", 0, 0), entry("rows", "F32", "[3,1,1]", 0, 12));
  expect_refused("3 rows and 0 ids");
}

TEST_F(Crafted, JsonIsShallowAndWhole) {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  save("{\"w/0\":" + deep + "}");
  expect_refused("nested too deeply");
  put(at(20) / kManifestName, "{\"a\":" + deep + "}");
  expect_refused("nested too deeply");
  for (const char* text :
       {"", "7", "[]", "null", "{", "{\"xxh3\":3}", "\xff\xfe", "{\"\xff\":0}"}) {
    put(at(20) / kManifestName, text);
    expect_refused(kManifestName);
  }
}

TEST_F(Crafted, ManifestsSayWhatTheyMust) {
  const std::string file = shard_of("{" + entry("w/0", "F32", "[4]", 0, 16) + "}", kData);
  const auto change = [&](const std::function<void(Json&)>& how) {
    Json json = dense(20);
    how(json);
    save(20, json, {file});
    expect_refused(kManifestName);
  };
  change([](Json& json) { json["version"] = -1; });
  change([](Json& json) { json["version"] = 1e300; });
  change([](Json& json) { json["states"] = "many"; });
  change([](Json& json) { json["states"] = 18446744073709551615ULL; });
  change([](Json& json) { json["rule"] = nullptr; });
  change([](Json& json) { json["tensors"] = 3; });
  change([](Json& json) { json["tensors"] = {3}; });
  change([](Json& json) { json["tensors"][0]["shape"] = {-1}; });
  change([](Json& json) { json["tensors"][0]["shape"] = {1ULL << 62, 1ULL << 62}; });
  change([](Json& json) { json["tensors"][0]["shape"] = std::vector<int>(100, 1); });
  change([](Json& json) { json["rows"] = Json::array(); });
  change([](Json& json) {
    json["files"] = {{{"name", "../secret"}, {"bytes", 1}, {"header", ""}}};
  });
  change([](Json& json) {
    json["files"] = {{{"name", "/etc/passwd"}, {"bytes", 1}, {"header", ""}}};
  });
  change([](Json& json) { json["files"] = Json::array(); });
}

TEST_F(Crafted, FilesAreFilesOfTheirFolder) {
  put(at(20) / "x", "");
  ASSERT_EQ(::mkfifo((at(20) / kManifestName).c_str(), 0600), 0);
  expect_refused("no regular file");
  fs::create_directories(at(20));
  fs::create_symlink(at(10) / kManifestName, at(20) / kManifestName);
  expect_refused("symbolic link");
  fs::create_directories(at(20));
  fs::create_symlink(kManifestName, at(20) / kManifestName);
  expect_refused("symbolic link");
  fs::create_directories(at(20) / kManifestName);
  expect_refused("no regular file");
  fs::create_directory_symlink(at(10), at(20));
  expect_refused("symbolic link");
  put(at(20), "no folder");
  expect_refused(version_name(20));
  if (::geteuid() == 0) {
    fs::copy(at(10), at(20));
    ASSERT_EQ(::chown(at(20).c_str(), 65534, 65534), 0);
    expect_refused("belongs to user 65534");
  }
  // No version has such a number.
  fs::create_directories(folder_.path() / std::string(20, '9'));
  fs::create_directories(folder_.path() / (std::string(19, '0') + "x"));
  EXPECT_EQ(found(), 10U);
}

TEST_F(Crafted, HolesAreNotRead) {
  put(at(20) / kManifestName, "{");
  fs::resize_file(at(20) / kManifestName, 1ULL << 42);
  expect_refused("which no manifest has");
  save("{" + entry("w/0", "F32", "[4]", 0, 16) + "}");
  fs::resize_file(at(20) / shard_name(0, 1), 1ULL << 42);
  expect_refused("should have");
  std::string longest(8, '\0');
  const std::uint64_t length = 100 << 20;
  std::memcpy(longest.data(), &length, sizeof length);
  save(20, dense(20), {longest});
  expect_refused(shard_name(0, 1));
}

}  // namespace
}  // namespace weft::pslib
