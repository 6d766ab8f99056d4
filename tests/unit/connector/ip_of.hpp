// Addresses for tests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p {

inline IpAddress ip(const char* text) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return ip_address_of(reinterpret_cast<const sockaddr&>(v4));
  EXPECT_EQ(::inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  return ip_address_of(reinterpret_cast<const sockaddr&>(v6));
}

}  // namespace weft::p2p
