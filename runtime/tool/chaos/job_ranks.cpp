#include "runtime/tool/chaos/job_ranks.hpp"

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/os/pidfd.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class Environment {
 public:
  explicit Environment(const fs::path& process) {
    std::ifstream file(process / "environ", std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::optional<std::string_view> value(std::string_view name) const {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\0', at), text_.size());
      const std::string_view entry = std::string_view(text_).substr(at, end - at);
      if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
        return entry.substr(name.size() + 1);
      at = end + 1;
    }
    return std::nullopt;
  }
  template <std::size_t N>
  std::optional<int> number(const std::array<std::string_view, N>& names) const {
    for (const std::string_view name : names)
      if (const auto text = value(name))
        if (const auto number = number_in(*text)) return number;
    return std::nullopt;
  }

 private:
  std::string text_;
};

constexpr std::array<std::string_view, 4> kRank{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "WEFT_RANK",
                                                "SLURM_PROCID"};
constexpr std::array<std::string_view, 3> kSize{"OMPI_COMM_WORLD_SIZE", "WEFT_SIZE",
                                                "SLURM_NTASKS"};

struct Candidate {
  int pid = 0;
  int parent = 0;
  int rank = 0;
};

/// The parent's pid; 0 if the process can't be read any more.
int parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE PARENT ...", where the name may hold anything.
  const auto name_end = text.rfind(") ");
  if (name_end == text.npos) return 0;
  const std::string_view rest = std::string_view(text).substr(name_end + 4);
  return number_in(rest.substr(0, rest.find(' '))).value_or(0);
}

}  // namespace

JobRanks find_ranks(const std::string& mark) {
  JobRanks found;
  std::vector<Candidate> candidates;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const auto pid = number_in(entry.path().filename().native());
    if (!pid) continue;
    const Environment environment(entry.path());
    if (environment.value(kMark) != mark) continue;
    const auto rank = environment.number(kRank);
    if (!rank) continue;
    found.size = std::max(found.size, environment.number(kSize).value_or(0));
    candidates.push_back({*pid, parent_of(entry.path()), *rank});
  }
  // A process that is the parent of another process of the same rank is a shell around that rank.
  std::set<std::pair<int, int>> parents;
  for (const Candidate& candidate : candidates) parents.insert({candidate.rank, candidate.parent});
  for (const Candidate& candidate : candidates) {
    if (parents.contains({candidate.rank, candidate.pid})) continue;
    try {
      found.ranks[candidate.rank] = {candidate.pid, os::pidfd_open(candidate.pid)};
    } catch (const Error&) {
      continue;  // the process has ended since
    }
  }
  return found;
}

}  // namespace weft::tool
