// Preloaded into a process: counts the process's calls that change files below a folder, and kills
// the process before one of them. WEFT_TEST_KILL_FOLDER names the folder and WEFT_TEST_KILL_STEP,
// from 1, the call; the last line that it writes names the call.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kFiles = 4096;

std::array<std::atomic<bool>, kFiles> is_ours;

bool is_below(const char* path) {
  static const char* const folder = std::getenv("WEFT_TEST_KILL_FOLDER");
  return folder != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool is_below(int file) {
  return file >= 0 && static_cast<std::size_t>(file) < kFiles &&
         is_ours[static_cast<std::size_t>(file)];
}

void mark(int file, bool ours) {
  if (file >= 0 && static_cast<std::size_t>(file) < kFiles)
    is_ours[static_cast<std::size_t>(file)] = ours;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void step(const char* name) {
  static std::atomic<long> done{0};
  static const char* const given = std::getenv("WEFT_TEST_KILL_STEP");
  if (given == nullptr || ++done != std::strtol(given, nullptr, 10)) return;
  std::fprintf(stderr, "killed before %s\n", name);
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

int open_file(const char* function, const char* path, int flags, mode_t mode) {
  const bool ours = is_below(path);
  if (ours && (flags & O_CREAT) != 0) step("create");
  const int file = next<int(const char*, int, ...)>(function)(path, flags, mode);
  mark(file, ours);
  return file;
}

// Calls below an open folder; calls on the folder itself count from its opening on.
int open_file_at(const char* function, int folder, const char* name, int flags, mode_t mode) {
  const bool ours = name[0] == '/' ? is_below(name) : is_below(folder);
  if (ours && (flags & O_CREAT) != 0) step("create");
  const int file = next<int(int, const char*, int, ...)>(function)(folder, name, flags, mode);
  mark(file, ours);
  return file;
}

mode_t mode_of(int flags, va_list more) {
  return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file("open64", path, flags, mode);
}

int close(int file) {
  mark(file, false);
  return next<int(int)>("close")(file);
}

ssize_t write(int file, const void* from, size_t bytes) {
  if (is_below(file)) step("write");
  return next<ssize_t(int, const void*, size_t)>("write")(file, from, bytes);
}

int fsync(int file) {
  if (is_below(file)) step("fsync");
  return next<int(int)>("fsync")(file);
}

int openat(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file_at("openat", folder, name, flags, mode);
}

int openat64(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file_at("openat64", folder, name, flags, mode);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (is_below(to_folder))
    step(std::strstr(to, "manifest") != nullptr ? "rename manifest" : "rename");
  return next<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder,
                                                                   to);
}

int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  if (is_below(folder)) step("mkdir");
  return next<int(int, const char*, mode_t)>("mkdirat")(folder, name, mode);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  if (is_below(folder)) step("remove");
  return next<int(int, const char*, int)>("unlinkat")(folder, name, flags);
}
}
#pragma GCC visibility pop
