// Every path that weft opens, against every trap that a file system offers. Each call ends in time,
// either with an error that names the path or as if nothing had been there, and writes nothing
// else.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/bootstrap/token/token_file.hpp"
#include "runtime/subscribe/subscriber_address.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr ::uid_t kSomebody = 65534;

/// Two folders: one holds the traps, the other holds files that must stay unchanged.
struct TwoFolders {
  TwoFolders() {
    fs::create_directory(traps());
    fs::create_directory(others());
    std::ofstream(victim()) << "precious";
  }
  fs::path traps() const { return folder.path() / "traps"; }
  fs::path others() const { return folder.path() / "others"; }
  fs::path victim() const { return others() / "victim"; }
  ~TwoFolders() { ::umount2((traps() / "x").c_str(), MNT_DETACH); }
  TwoFolders(const TwoFolders&) = delete;
  TwoFolders& operator=(const TwoFolders&) = delete;

  void expect_untouched(const std::string& cell) const {
    std::ostringstream content;
    content << std::ifstream(victim()).rdbuf();
    EXPECT_EQ(content.str(), "precious") << cell;
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(others()))
      names.insert(entry.path().filename().string());
    EXPECT_EQ(names, std::set<std::string>{"victim"}) << cell;
  }

  TempFolder folder;
};

struct Trap {
  const char* name;
  /// Creates the trap in `traps`; returns the path to give to weft.
  std::function<fs::path(const TwoFolders&)> set;
  bool is_folder = false;
};

const std::vector<Trap> kTraps{
    Trap{"a link to another's file",
         [](const TwoFolders& folders) {
           fs::create_symlink(folders.victim(), folders.traps() / "x");
           return folders.traps() / "x";
         }},
    Trap{"a link to another folder",
         [](const TwoFolders& folders) {
           fs::create_directory_symlink(folders.others(), folders.traps() / "x");
           return folders.traps() / "x";
         },
         true},
    Trap{"a link to nothing, in another folder",
         [](const TwoFolders& folders) {
           fs::create_symlink(folders.others() / "new", folders.traps() / "x");
           return folders.traps() / "x";
         }},
    Trap{"a loop",
         [](const TwoFolders& folders) {
           fs::create_symlink("x", folders.traps() / "x");
           return folders.traps() / "x";
         }},
    Trap{"a FIFO",
         [](const TwoFolders& folders) {
           EXPECT_EQ(::mkfifo((folders.traps() / "x").c_str(), 0600), 0);
           return folders.traps() / "x";
         }},
    Trap{"a hole of 4 TiB",
         [](const TwoFolders& folders) {
           std::ofstream(folders.traps() / "x") << "h";
           fs::resize_file(folders.traps() / "x", std::uintmax_t{4} << 40);
           return folders.traps() / "x";
         }},
    Trap{"a folder",
         [](const TwoFolders& folders) {
           fs::create_directory(folders.traps() / "x");
           return folders.traps() / "x";
         }},
    Trap{"a file below a file",
         [](const TwoFolders& folders) {
           std::ofstream(folders.traps() / "x") << "no folder";
           return folders.traps() / "x" / "y";
         }},
    Trap{"a name too long",
         [](const TwoFolders& folders) { return folders.traps() / std::string(300, 'x'); }},
    Trap{"a way out by ..",
         [](const TwoFolders& folders) { return folders.traps() / ".." / "others" / "victim"; }},
    Trap{"a full device", [](const TwoFolders&) { return fs::path("/dev/full"); }},
};

/// A separate file system of one page, mounted below the traps.
fs::path small_file_system(const TwoFolders& folders) {
  const fs::path at = folders.traps() / "x";
  fs::create_directory(at);
  EXPECT_EQ(::mount("weft", at.c_str(), "tmpfs", 0, "size=4096"), 0);
  return at;
}

/// Traps that only root can set, in a mount namespace of its own.
const std::vector<Trap> kTrapsOfRoot{
    Trap{"a file of somebody else",
         [](const TwoFolders& folders) {
           std::ofstream(folders.traps() / "x") << "nonsense";
           EXPECT_EQ(::chown((folders.traps() / "x").c_str(), kSomebody, kSomebody), 0);
           return folders.traps() / "x";
         }},
    Trap{"a new name where nothing can be written",
         [](const TwoFolders& folders) {
           const fs::path at = small_file_system(folders);
           EXPECT_EQ(::mount("weft", at.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
           return at / "y";
         }},
    Trap{"a new name where no space is left",
         [](const TwoFolders& folders) {
           const fs::path at = small_file_system(folders);
           std::ofstream(at / "all") << std::string(4096, 'x');
           return at / "y";
         }},
    Trap{"a folder in which no space is left",
         [](const TwoFolders& folders) {
           const fs::path at = small_file_system(folders);
           std::ofstream(at / "all") << std::string(4096, 'x');
           return at;
         }},
};

/// The files below `folder` that have content, without `all`.
std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != "all" && entry.file_size() > 0)
      files.insert(entry.path().string());
  return files;
}

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

void join_with(const char* name, const fs::path& path) {
  const Variable variable(name, path.string());
  World world = World::join();
  Collectives::open(world);
  world.leave(Deadline::after(seconds(5))).or_throw();
}

void save_in(const fs::path& folder) {
  World world = World::join();
  pslib::ParameterServer server(world);
  pslib::TableOptions options;
  options.checkpoint = {.folder = folder.string(), .every = 1};
  pslib::Table table = server.table("table", {{"t", {64}}}, options);
  table.initialize().or_throw();
  table.push_pull().or_throw();
  world.leave(Deadline::after(seconds(5))).or_throw();
}

void show_in(const fs::path& folder) {
  World world = World::join();
  pslib::ParameterServer server(world, {.metrics_folder = folder.string()});
  pslib::Table table = server.table("table", {{"t", {64}}}, pslib::TableOptions{});
  table.initialize().or_throw();
  table.push_pull().or_throw();
  world.leave(Deadline::after(seconds(5))).or_throw();
}

struct Opener {
  const char* name;
  std::function<void(const fs::path&)> open;
  /// The call writes into a folder, which may be a link if the link belongs to its user or root:
  /// the user who names a link wants that.
  bool wants_folder = false;
};

const std::array kOpeners{
    Opener{"WEFT_LOG_FILE", [](const fs::path& path) { join_with("WEFT_LOG_FILE", path); }},
    Opener{"WEFT_RECORD_DIR", [](const fs::path& path) { join_with("WEFT_RECORD_DIR", path); }},
    Opener{"WEFT_COLL_COSTS", [](const fs::path& path) { join_with("WEFT_COLL_COSTS", path); }},
    Opener{"WEFT_TOPO_FILE", [](const fs::path& path) { join_with("WEFT_TOPO_FILE", path); }},
    Opener{"a token file",
           [](const fs::path& path) { (void)bootstrap::read_token(path.string()); }},
    Opener{"an address file",
           [](const fs::path& path) {
             const auto where = subscribe::look_up({.file = path.string()});
             if (where.ips.empty())
               throw Error(ErrorDetail{.code = Code::unreachable, .message = where.trouble});
           }},
    Opener{"checkpoints", save_in, true},
    Opener{"metrics", show_in, true},
};

/// Springs all traps with all openers; returns the number of calls that ended with an error.
int spring(const std::vector<Trap>& traps, const std::function<void(const TwoFolders&)>& after) {
  int errors = 0;
  for (const Opener& opener : kOpeners)
    for (const Trap& trap : traps) {
      if (trap.is_folder && opener.wants_folder) continue;
      const std::string cell = std::string(opener.name) + " at " + trap.name;
      SCOPED_TRACE(cell);
      const TwoFolders folders;
      const fs::path path = trap.set(folders);
      const auto begun = std::chrono::steady_clock::now();
      try {
        opener.open(path);
      } catch (const Error& error) {
        ++errors;
        EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "ends with a foreign exception: " << error.what();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(2));
      folders.expect_untouched(cell);
      after(folders);
    }
  return errors;
}

TEST(Traps, AreToldWithTheirPathAndTouchNothingElse) {
  EXPECT_GT(spring(kTraps, [](const TwoFolders&) {}), 30) << "else nothing was a trap";
}

TEST(Traps, OfRootAreToldWithTheirPathAndLeaveNothingBehind) {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0)
    GTEST_SKIP() << "only root, where it may mount, can set these";
  const int errors = spring(kTrapsOfRoot, [](const TwoFolders& folders) {
    // A file for which there is no space leaves nothing behind.
    if (fs::exists(folders.traps() / "x" / "all")) {
      EXPECT_EQ(files_in(folders.traps() / "x"), std::set<std::string>{});
    }
  });
  EXPECT_GT(errors, 8) << "else nothing was a trap";
}

}  // namespace
}  // namespace weft::tests
