// Bootstrap over the launcher's PMIx server: Open MPI's mpirun, or srun --mpi=pmix.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/fail.hpp"
#include "base/os/file_names.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/pmix_library.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

/// Time before the deadline at which fence() starts to find out which ranks are missing.
constexpr std::chrono::milliseconds kAskingTime{500};

[[noreturn]] void fail(const char* call, pmix_status_t status, const std::string& hint) {
  const char* const words = bootstrap::pmix_library().error_text(status);
  throw_error(Code::bootstrap, "join", fmt::format("{}: {}", call, words), hint);
}

/// As PMIX_VALUE_RELEASE, whose function is the library's.
void release(pmix_value_t* value) {
  bootstrap::pmix_library().destroy_value(value);
  std::free(value);
}

/// Results of PMIx callbacks. Shared with the callbacks, because they may run after fence()
/// returns.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  bool fenced = false;
  pmix_status_t fence_status = PMIX_SUCCESS;
  std::vector<bool> arrived;
};

struct FenceCall {
  std::shared_ptr<Progress> progress;
};
struct GetCall {
  std::shared_ptr<Progress> progress;
  std::size_t rank;
};

void on_fence(pmix_status_t status, void* data) {
  const std::unique_ptr<FenceCall> call(static_cast<FenceCall*>(data));
  const std::lock_guard lock(call->progress->mutex);
  call->progress->fenced = true;
  call->progress->fence_status = status;
  call->progress->changed.notify_all();
}

void on_get(pmix_status_t status, pmix_value_t*, void* data) {
  const std::unique_ptr<GetCall> call(static_cast<GetCall*>(data));
  const std::lock_guard lock(call->progress->mutex);
  if (status == PMIX_SUCCESS) call->progress->arrived[call->rank] = true;
  call->progress->changed.notify_all();
}

/// PMIx keeps values as long as the process lives, so each world of a process needs a key of its
/// own.
std::string next_key() {
  static std::atomic<int> worlds{0};
  return fmt::format("weft.address.{}", worlds++);
}

std::set<int> open_descriptors() {
  std::set<int> open;
  for (const std::string& name : os::file_names("/proc/self/fd"))
    open.insert(std::atoi(name.c_str()));
  // The descriptor that listed the folder is closed by now.
  std::erase_if(open, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  return open;
}

/// Marks the sockets that PMIx has opened as close-on-exec. A program started by this process would
/// otherwise inherit them, and one that outlives the rank would keep the launcher's connection
/// open.
void keep_new_sockets_from_programs(const std::set<int>& before) {
  for (const int fd : open_descriptors()) {
    struct stat about {};
    if (before.contains(fd) || ::fstat(fd, &about) != 0 || !S_ISSOCK(about.st_mode)) continue;
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

class PmixBootstrap final : public Bootstrap {
 public:
  PmixBootstrap() : key_(next_key()) {
    const auto before = open_descriptors();
    const pmix_status_t status = pmix_.init(&self_, nullptr, 0);
    keep_new_sockets_from_programs(before);
    if (status != PMIX_SUCCESS)
      fail("PMIx_Init", status,
           "start the job with mpirun or srun --mpi=pmix, or set WEFT_BOOTSTRAP=alone");
    size_ = static_cast<int>(job_number(PMIX_JOB_SIZE));
    local_size_ = static_cast<int>(job_number(PMIX_LOCAL_SIZE));
    local_rank_ = ask_local_rank();
    launcher_ = ::getppid();
  }
  ~PmixBootstrap() override { pmix_.finalize(nullptr, 0); }
  PmixBootstrap(const PmixBootstrap&) = delete;
  PmixBootstrap& operator=(const PmixBootstrap&) = delete;

  std::string_view name() const noexcept override { return "pmix"; }
  int rank() const noexcept override { return static_cast<int>(self_.rank); }
  int size() const noexcept override { return size_; }
  int local_size() const noexcept override { return local_size_; }
  int local_rank() const noexcept override { return local_rank_; }
  std::string job() const override { return self_.nspace; }
  int launcher_pid() const noexcept override { return launcher_ > 1 ? launcher_ : 0; }

  void put(std::span<const std::byte> value) override {
    pmix_value_t held;
    held.type = PMIX_BYTE_OBJECT;
    held.data.bo.bytes =
        const_cast<char*>(reinterpret_cast<const char*>(value.data()));  // NOLINT: not written to
    held.data.bo.size = value.size();
    pmix_status_t status = pmix_.put(PMIX_GLOBAL, key_.c_str(), &held);
    if (status == PMIX_SUCCESS) status = pmix_.commit();
    if (status != PMIX_SUCCESS) fail("PMIx_Put", status, "");
  }

  void fence(Deadline deadline) override {
    const auto progress = std::make_shared<Progress>();
    bool collect = true;
    pmix_info_t info;
    pmix_.load_info(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    const pmix_status_t status =
        pmix_.fence(nullptr, 0, &info, 1, on_fence, new FenceCall{progress});
    if (status != PMIX_SUCCESS) fail("PMIx_Fence", status, "");
    std::unique_lock lock(progress->mutex);
    const auto fenced = [&] { return progress->fenced; };
    if (!progress->changed.wait_until(lock, deadline.when() - kAskingTime, fenced)) {
      lock.unlock();
      ask_for_addresses(progress);
      lock.lock();
      if (!progress->changed.wait_until(lock, deadline.when(), fenced)) throw_missing(*progress);
    }
    if (progress->fence_status != PMIX_SUCCESS)
      fail("PMIx_Fence", progress->fence_status, "check whether a rank died before it joined");
  }

  std::vector<std::byte> get(int rank) override {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, self_.nspace, static_cast<pmix_rank_t>(rank));
    pmix_value_t* value = nullptr;
    const pmix_status_t status = pmix_.get(&proc, key_.c_str(), nullptr, 0, &value);
    if (status != PMIX_SUCCESS)
      fail("PMIx_Get", status, fmt::format("rank {} gave no address", rank));
    std::vector<std::byte> bytes(value->data.bo.size);
    std::memcpy(bytes.data(), value->data.bo.bytes, bytes.size());
    release(value);
    return bytes;
  }

 private:
  std::uint32_t job_number(const char* key) {
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, self_.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t* value = nullptr;
    const pmix_status_t status = pmix_.get(&job, key, nullptr, 0, &value);
    if (status != PMIX_SUCCESS)
      fail("PMIx_Get", status, fmt::format("the launcher gave no {}", key));
    const std::uint32_t number = value->data.uint32;
    release(value);
    return number;
  }

  /// A launcher may not provide the local rank; ranks are then assumed to fill hosts in equal
  /// blocks.
  int ask_local_rank() const {
    pmix_value_t* value = nullptr;
    if (pmix_.get(&self_, PMIX_LOCAL_RANK, nullptr, 0, &value) != PMIX_SUCCESS)
      return rank() % std::max(local_size_, 1);
    const int number = value->type == PMIX_UINT16 ? value->data.uint16 : rank();
    release(value);
    return number % std::max(local_size_, 1);
  }

  /// The fence does not report which ranks are missing; requests for each rank's address do.
  void ask_for_addresses(const std::shared_ptr<Progress>& progress) {
    progress->arrived.assign(static_cast<std::size_t>(size_), false);
    progress->arrived[self_.rank] = true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == this->rank()) continue;
      pmix_proc_t proc;
      PMIX_LOAD_PROCID(&proc, self_.nspace, static_cast<pmix_rank_t>(rank));
      auto call = std::make_unique<GetCall>(GetCall{progress, static_cast<std::size_t>(rank)});
      if (pmix_.ask(&proc, key_.c_str(), nullptr, 0, on_get, call.get()) == PMIX_SUCCESS)
        (void)call.release();  // the callback owns the object now
    }
  }

  [[noreturn]] void throw_missing(const Progress& progress) const {
    std::string missing;
    int first = -1;
    for (int rank = 0; rank < size_; ++rank) {
      if (progress.arrived[static_cast<std::size_t>(rank)]) continue;
      missing += fmt::format("{}rank {}", first < 0 ? "" : ", ", rank);
      if (first < 0) first = rank;
    }
    throw Error(ErrorDetail{
        .code = Code::timeout,
        .operation = "join",
        .message = fmt::format("never arrived: {}", missing.empty() ? "(all did, late)" : missing),
        .hint = "look at the output of that rank; WEFT_INIT_TIMEOUT sets how long joining waits",
        .rank = rank(),
        .peer = first});
  }

  const bootstrap::PmixLibrary& pmix_ = bootstrap::pmix_library();
  const std::string key_;
  pmix_proc_t self_{};
  int size_ = 1;
  int local_size_ = 1;
  int local_rank_ = 0;
  pid_t launcher_ = 0;
};

}  // namespace

std::unique_ptr<Bootstrap> make_pmix_bootstrap() { return std::make_unique<PmixBootstrap>(); }

}  // namespace weft
