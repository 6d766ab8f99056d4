#include "base/os/system_error.hpp"

#include <cerrno>
#include <system_error>

#include "weft/error.hpp"

namespace weft::os {

std::string words(int error) { return std::generic_category().message(error); }

std::string hint_for(int error) {
  if (error == EMFILE) return "raise the limit of open files (ulimit -n)";
  if (error == ENFILE) return "raise the machine's limit of open files (sysctl fs.file-max)";
  if (error == EADDRINUSE)
    return "choose a port that no process uses, below those that the system gives to connections "
           "(sysctl net.ipv4.ip_local_port_range)";
  return {};
}

void throw_system_error(std::string_view operation, std::string_view subject, int error) {
  std::string message(subject);
  if (!message.empty()) message += ": ";
  message += words(error);
  throw Error(ErrorDetail{.code = Code::system,
                          .operation = std::string(operation),
                          .message = std::move(message),
                          .hint = hint_for(error)});
}

}  // namespace weft::os
