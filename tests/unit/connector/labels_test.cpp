// Addresses with a label, as `ip addr add ... label lo:1` gives them.
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p {
namespace {

/// In the namespace of this thread alone, lo is set up and gets an address by a label.
bool make_labelled_address() {
  const os::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return false;
  request = {};
  std::strcpy(request.ifr_name, "lo:1");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x0a010203);
  std::memcpy(&request.ifr_addr, &address, sizeof address);
  return ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

TEST(Interfaces, OfALabelAreThePortBelowIt) {
  bool is_alone = false;
  bool is_made = false;
  std::vector<InterfaceAddress> addresses;
  std::thread([&] {
    is_alone = ::unshare(CLONE_NEWNET) == 0;
    is_made = is_alone && make_labelled_address();
    if (is_made) addresses = interface_addresses();
  }).join();
  if (!is_alone) GTEST_SKIP() << "skipped: network namespaces need root";
  ASSERT_TRUE(is_made);
  int labelled = 0;
  for (const InterfaceAddress& address : addresses) {
    EXPECT_EQ(address.port, "lo") << address.name;
    labelled += address.name == "lo:1";
  }
  EXPECT_EQ(labelled, 1);
}

}  // namespace
}  // namespace weft::p2p
