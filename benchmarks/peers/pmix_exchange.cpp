#include "benchmarks/peers/pmix_exchange.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pmix.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace weft::bench {
namespace {

constexpr const char* kKey = "weft.bench.peer.";

pmix_proc_t g_self;

void require(pmix_status_t status, const char* call) {
  if (status != PMIX_SUCCESS)
    throw std::runtime_error(std::string(call) + ": " + PMIx_Error_string(status));
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

PmixExchange::PmixExchange() {
  require(PMIx_Init(&g_self, nullptr, 0), "PMIx_Init (start it with mpirun -n 2)");
  rank_ = static_cast<int>(g_self.rank);
  pmix_proc_t all = g_self;
  all.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = nullptr;
  require(PMIx_Get(&all, PMIX_JOB_SIZE, nullptr, 0, &value), "PMIx_Get(size)");
  size_ = static_cast<int>(value->data.uint32);
  PMIX_VALUE_RELEASE(value);
}

PmixExchange::~PmixExchange() { PMIx_Finalize(nullptr, 0); }

std::string PmixExchange::hear_from(int rank, const std::string& word) {
  const std::string key = kKey + std::to_string(rank);
  if (rank_ == rank) {
    pmix_value_t value;
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(word.c_str());
    require(PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
    require(PMIx_Commit(), "PMIx_Commit");
  }
  pmix_info_t collect;
  bool yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  require(PMIx_Fence(nullptr, 0, &collect, 1), "PMIx_Fence");
  PMIX_INFO_DESTRUCT(&collect);
  pmix_proc_t teller = g_self;
  teller.rank = static_cast<pmix_rank_t>(rank);
  pmix_value_t* value = nullptr;
  require(PMIx_Get(&teller, key.c_str(), nullptr, 0, &value), "PMIx_Get(address)");
  const std::string said = value->data.string;
  PMIX_VALUE_RELEASE(value);
  return said;
}

void PmixExchange::meet() { require(PMIx_Fence(nullptr, 0, nullptr, 0), "PMIx_Fence"); }

std::string own_address() {
  ifaddrs* found = nullptr;
  std::string address = "127.0.0.1";
  if (::getifaddrs(&found) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, ::freeifaddrs);
    for (const ifaddrs* at = all.get(); at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
      if ((at->ifa_flags & IFF_LOOPBACK) != 0 || (at->ifa_flags & IFF_UP) == 0) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      const auto* internet = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      ::inet_ntop(AF_INET, &internet->sin_addr, text.data(), text.size());
      address = text.data();
      break;
    }
  }
  return host_name() + " " + address;
}

std::string reachable(const std::string& said) {
  std::istringstream words(said);
  std::string host;
  std::string address;
  words >> host >> address;
  return host == host_name() ? "127.0.0.1" : address;
}

}  // namespace weft::bench
