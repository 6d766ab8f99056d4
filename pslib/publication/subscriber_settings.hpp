// Settings of both ends of a publication: the program's options, else the environment.
#pragma once

#include <chrono>
#include <string>

#include "base/config.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "runtime/subscribe/subscriber_address.hpp"

namespace weft::pslib {

struct SubscriberSettings {
  subscribe::SubscriberAddress address;
  p2p::Identity::Secret key{};
  std::string iface;
  bool must_encrypt = false;           ///< WEFT_ENCRYPT
  std::chrono::nanoseconds timeout{};  ///< WEFT_TIMEOUT
};

/// `operation` is the application's call, for errors. Throws Error(bad_config).
SubscriberSettings read_subscriber_settings(const Config& config, const std::string& address,
                                            const std::string& token_file, const char* operation);

}  // namespace weft::pslib
