// Files below a folder in which another user has laid traps: nothing is written elsewhere, no call
// blocks, and every refusal is an Error that names the path.
#include "base/os/folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>

#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft::os {
namespace {

namespace fs = std::filesystem;
using tests::TempFolder;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(Draft& draft, std::string_view text) { draft.write(std::as_bytes(std::span(text))); }

/// Requires that `act` throws weft's Error, of `code`, naming `path`.
template <typename Act>
void expect_refused(const Act& act, const std::string& path, Code code = Code::system) {
  try {
    act();
    ADD_FAILURE() << "nothing was refused: " << path;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(path), std::string_view::npos) << error.what();
  }
}

TEST(Folder, IsMadeWithWhatIsMissingForItsOwnerAlone) {
  const TempFolder temp;
  const Folder folder = Folder::make(temp.path() / "a" / "b/", "test").make_below("c");
  EXPECT_EQ(folder.path(), temp.path() / "a" / "b" / "c");
  for (const char* each : {"a", "a/b", "a/b/c"})
    EXPECT_EQ(fs::status(temp.path() / each).permissions(), fs::perms::owner_all) << each;
  EXPECT_FALSE(Folder::find_at(temp.path() / "none", "test"));
  expect_refused([&] { (void)Folder::open(temp.path() / "none", "test"); }, "none");
}

TEST(Folder, FollowsLinksToItButNoneBelow) {
  const TempFolder temp;
  fs::create_directories(temp.path() / "real" / "inside");
  fs::create_directories(temp.path() / "elsewhere");
  temp.write("secret", "s");
  fs::create_symlink("real", temp.path() / "given");
  fs::create_symlink("../elsewhere", temp.path() / "real" / "link");
  fs::create_symlink("loop", temp.path() / "real" / "loop");
  fs::create_symlink("../secret", temp.path() / "real" / "file");
  const Folder folder = Folder::open(temp.path() / "given", "test");
  EXPECT_TRUE(folder.find("inside"));
  for (const char* name : {"link", "loop"}) {
    expect_refused([&] { (void)folder.find(name); }, name);
    expect_refused([&] { (void)folder.make_below(name); }, name);
  }
  expect_refused([&] { (void)folder.read("file"); }, "file: it is a symbolic link");
  for (const char* name : {"", ".", "..", "../secret", "inside/x"}) {
    expect_refused([&] { (void)folder.find(name); }, "no name");
    expect_refused([&] { (void)folder.read(name); }, "no name");
    expect_refused([&] { Draft(folder, name); }, (temp.path() / "given").native());
  }
}

TEST(Folder, ReadsRegularFilesAloneAndWaitsForNobody) {
  const TempFolder temp;
  const Folder folder = Folder::open(temp.path(), "test");
  ASSERT_EQ(::mkfifo((temp.path() / "fifo").c_str(), 0600), 0);
  fs::create_directories(temp.path() / "folder");
  expect_refused([&] { (void)folder.read("fifo"); }, "fifo: it is no regular file");
  expect_refused([&] { (void)folder.read("folder"); }, "folder");
  expect_refused([&] { (void)folder.read("none"); }, "none");
  expect_refused([&] { (void)folder.read(std::string(300, 'n')); }, std::string(300, 'n'));
  EXPECT_FALSE(folder.find_file("none"));
}

TEST(Folder, RefusesAnotherUsersFolderBelow) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  const TempFolder temp;
  fs::create_directories(temp.path() / "theirs");
  ASSERT_EQ(::chown((temp.path() / "theirs").c_str(), 65534, 65534), 0);
  const Folder folder = Folder::open(temp.path(), "test");
  expect_refused([&] { (void)folder.find("theirs"); }, "theirs: the folder belongs to user 65534");
  expect_refused([&] { (void)folder.make_below("theirs"); }, "theirs");
}

TEST(Folder, RemovesWhatItHasAndNothingThatALinkNames) {
  const TempFolder temp;
  temp.write("kept/file", "k");
  temp.write("all/a/b/file", "x");
  fs::create_symlink(temp.path() / "kept", temp.path() / "all" / "a" / "link");
  const Folder folder = Folder::open(temp.path(), "test");
  folder.remove("all");
  folder.remove("none");
  EXPECT_FALSE(fs::exists(temp.path() / "all"));
  EXPECT_EQ(content_of(temp.path() / "kept" / "file"), "k");
}

TEST(Draft, GetsItsNameWholeOrGoes) {
  const TempFolder temp;
  const Folder folder = Folder::open(temp.path(), "test");
  {
    Draft draft(folder, "file");
    write(draft, "half");
    EXPECT_FALSE(fs::exists(temp.path() / "file"));
  }
  EXPECT_TRUE(fs::is_empty(temp.path())) << "what was not finished is gone";
  temp.write("target", "t");
  fs::create_symlink("target", temp.path() / "file");
  {
    Draft draft(folder, "file");
    write(draft, "....");
    const std::string_view start = "new";
    draft.write_start(std::as_bytes(std::span(start)));
    draft.sync();
    draft.publish();
  }
  EXPECT_EQ(content_of(temp.path() / "file"), "new.");
  EXPECT_FALSE(fs::is_symlink(temp.path() / "file"));
  EXPECT_EQ(content_of(temp.path() / "target"), "t") << "the link was replaced, not followed";
  struct stat about {};
  ASSERT_EQ(::stat((temp.path() / "file").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600U);
  Draft late(folder, "file");
  write(late, "late");
  late.publish_if_none();
  EXPECT_EQ(content_of(temp.path() / "file"), "new.");
}

TEST(Draft, HasANameThatNobodyCanPlant) {
  const TempFolder temp;
  const Folder folder = Folder::open(temp.path(), "test");
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i) {
    const Draft draft(folder, "file");
    for (const std::string& name : folder.names()) names.insert(name);
  }
  EXPECT_EQ(names.size(), 20U);
  for (const std::string& name : names) EXPECT_EQ(name.size(), sizeof "file..tmp" - 1 + 16) << name;
}

TEST(Draft, IsRefusedWhereNothingCanBeWritten) {
  const TempFolder temp;
  const Folder folder = Folder::open(temp.path(), "test");
  expect_refused([&] { Draft(folder, std::string(250, 'n')); }, "nnn");
  fs::create_directories(temp.path() / "taken" / "full");
  expect_refused(
      [&] {
        Draft draft(folder, "taken");
        draft.publish();
      },
      "taken");
  EXPECT_EQ(folder.names().size(), 1U) << "no draft stays";
  const Folder gone = folder.make_below("gone");
  fs::remove(temp.path() / "gone");
  expect_refused([&] { Draft(gone, "file"); }, "gone/file");
}

}  // namespace
}  // namespace weft::os
