#include "pslib/publication/subscriber_settings.hpp"

#include <fmt/format.h>

#include "runtime/bootstrap/token/token_file.hpp"
#include "weft/error.hpp"

namespace weft::pslib {

SubscriberSettings read_subscriber_settings(const Config& config, const std::string& address,
                                            const std::string& token_file, const char* operation) {
  const auto chosen = [&](const std::string& option, Setting setting, const char* variable,
                          const char* hint) {
    if (option.find('\0') != option.npos)
      throw Error(
          ErrorDetail{.code = Code::bad_argument,
                      .operation = operation,
                      .message = fmt::format("{}: the text given in its place has a NUL", variable),
                      .hint = hint});
    const std::string& text = option.empty() ? config.text(setting) : option;
    if (text.empty())
      throw Error(ErrorDetail{.code = Code::bad_config,
                              .operation = operation,
                              .message = fmt::format("{} is not set", variable),
                              .hint = hint});
    return text;
  };
  return {
      .address = subscribe::parse_subscriber_address(chosen(
          address, Setting::subscribe_addr, "WEFT_SUBSCRIBE_ADDR",
          "host:port, or a file by which subscribers learn where the publisher listens; the same "
          "for both")),
      .key = bootstrap::read_token(
          chosen(token_file, Setting::subscribe_token_file, "WEFT_SUBSCRIBE_TOKEN_FILE",
                 "a file with the subscribers' token: (umask 077; openssl rand -hex 32 > FILE)"),
          p2p::TokenUse::subscribers),
      .iface = config.text(Setting::iface),
      .must_encrypt = config.flag(Setting::encrypt),
      .timeout = config.time(Setting::timeout).value()};
}

}  // namespace weft::pslib
