#include "pslib/table/table_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"

namespace weft::pslib {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// `slot "ps/server/table/part"` becomes `table "table"`.
void name_the_table(std::string& text, std::string_view table, std::string_view prefix) {
  const std::string begin = fmt::format("slot \"{}", prefix);
  for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    const std::size_t end = text.find('"', at + begin.size());
    text.replace(at, end == text.npos ? end : end + 1 - at, fmt::format("table \"{}\"", table));
  }
}

const char* role_of(int rank, const Roles& roles) {
  const bool works = std::ranges::find(roles.workers, rank) != roles.workers.end();
  const bool serves = std::ranges::find(roles.servers, rank) != roles.servers.end();
  if (works == serves) return nullptr;
  return works ? "worker" : "server";
}

}  // namespace

ErrorDetail in_words_of_tables(ErrorDetail detail, const char* operation, std::string_view table,
                               std::string_view prefix, const Roles& roles) {
  detail.operation = operation;
  name_the_table(detail.message, table, prefix);
  replace_all(detail.message, "has published nothing newer", "has not come to the next update");
  replace_all(detail.message, "has not exposed it", "has not made it");
  replace_all(detail.message, "already exposes it", "already has it");
  replace_all(detail.hint, "close the other slot first",
              "destroy the other one first, or take another name");
  replace_all(detail.message, "its owner, ", "");
  replace_all(detail.message, ", has closed it", " has closed it");
  replace_all(detail.hint, "attach again once it is exposed again",
              "keep the table until all ranks are through: leave() before it goes");
  if (detail.message.find("has not come to the next update") != std::string::npos)
    replace_all(detail.hint, "is the owner at the same step?",
                "an update may wait for another worker's push, of which weft-status tells;");
  if (std::ranges::find(roles.servers, detail.peer) != roles.servers.end())
    replace_all(detail.hint, "it ended earlier than this rank expected",
                "it ended earlier than this rank expected: has a worker closed the table after "
                "fewer updates? serve() names it");
  replace_all(detail.hint, "does the owner get", "does that rank get");
  replace_all(detail.hint, "is the owner at the same step?", "is it at the same step?");
  const std::string peer = fmt::format("rank {} (", detail.peer);
  if (const char* const role = role_of(detail.peer, roles))
    replace_all(detail.message, peer, fmt::format("the {} on {}", role, peer));
  const std::string name = fmt::format("table \"{}\"", table);
  if (detail.message.find(name) == std::string::npos)
    detail.message = fmt::format("{}: {}", name, detail.message);
  if (detail.slot.starts_with(prefix)) detail.slot.clear();
  return detail;
}

Status in_words_of_tables(Status status, const char* operation, std::string_view table,
                          std::string_view prefix, const Roles& roles) noexcept {
  if (status.ok() || !status.detail().slot.starts_with("ps/")) return status;
  return altered(std::move(status), [&](ErrorDetail& detail) {
    detail = in_words_of_tables(std::move(detail), operation, table, prefix, roles);
  });
}

}  // namespace weft::pslib
