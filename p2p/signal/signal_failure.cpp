#include "p2p/signal/signal_failure.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/attach/slot_messages.hpp"

namespace weft::p2p {

std::string in_signal(const std::string& name, std::string_view message) {
  const std::string quoted = fmt::format("\"{}\"", name);
  if (message.find(quoted) != message.npos) return std::string(message);
  return fmt::format("signal {}: {}", quoted, message);
}

Status signal_failure(const LocalRank& local, const Mesh& mesh, Code code, const char* operation,
                      const std::string& name, int peer, std::string_view message,
                      std::string_view hint) noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = name.empty() ? std::string(message) : in_signal(name, message),
                       .hint = std::string(hint),
                       .rank = local.rank,
                       .peer = peer,
                       .host = peer < 0 ? "" : mesh.peer(peer).host(),
                       .slot = name};
  });
}

void check_signal_name(const LocalRank& local, const Mesh& mesh, const char* operation,
                       const std::string& name) {
  if (name.empty() || name.size() > kMaxSlotName || name.find('\0') != std::string::npos)
    signal_failure(local, mesh, Code::bad_argument, operation, name.substr(0, 40), -1,
                   fmt::format("a signal's name of {} bytes", name.size()),
                   fmt::format("names are plain text of 1 to {} bytes", kMaxSlotName))
        .or_throw();
}

}  // namespace weft::p2p
