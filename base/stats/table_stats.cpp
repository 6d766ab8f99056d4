#include "base/stats/table_stats.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/stats/recorder.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

constexpr std::size_t kPage = 4096;
static_assert(sizeof(TablePage) <= kPage);

// Returns an empty Fd if the memfd can't be had: the table then works unseen.
os::Fd make_file() {
  os::Fd file(::memfd_create(kTableFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), kPage) != 0 || ::fallocate(file.get(), 0, 0, kPage) != 0)
    return {};
  return file;
}

template <std::size_t N>
void set(std::array<char, N>& to, std::string_view text) noexcept {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

}  // namespace

TableStats::TableStats(const TableAbout& about)
    : file_(make_file()),
      memory_(file_ ? os::Mapping::shared(file_, kPage) : os::Mapping::anonymous(kPage)) {
  TablePage& page = this->page();
  page.version = kTableVersion;
  page.rank = about.rank;
  page.pid = ::getpid();
  page.is_sparse = about.is_sparse ? 1 : 0;
  page.works = about.works ? 1 : 0;
  page.serves = about.serves ? 1 : 0;
  page.start_monotonic_ns = ns_of(Clock::now());
  set(page.server, about.server);
  set(page.table, about.table);
  page.magic.store(kTableMagic, std::memory_order_release);
}

TableView TableView::open(const os::Fd& file) {
  TableView view;
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || about.st_size != static_cast<off_t>(kPage) ||
      !S_ISREG(about.st_mode))
    return view;
  auto page = std::make_shared<TablePage>();
  const auto bytes = static_cast<ssize_t>(sizeof(TablePage));
  if (::pread(file.get(), static_cast<void*>(page.get()), sizeof(TablePage), 0) != bytes ||
      page->magic.load(std::memory_order_acquire) != kTableMagic || page->version != kTableVersion)
    return view;
  page->server.back() = page->table.back() = '\0';
  view.page_ = std::move(page);
  return view;
}

}  // namespace weft::stats
