// The RDMA libraries of this machine.
#pragma once

#include <memory>
#include <string>

namespace weft::p2p::verbs {

class ConnectionManager;
class Verbs;

/// libibverbs, loaded when first asked for; one for the process, and never unloaded. Null where it
/// is not installed or too old, or where weft was built without its header; `why` says so then.
/// Thread-safe.
std::shared_ptr<Verbs> load_verbs(std::string& why);

/// The same from another file, each time anew.
std::shared_ptr<Verbs> load_verbs_from(const char* file, std::string& why);

/// librdmacm, as load_verbs() has libibverbs.
std::shared_ptr<ConnectionManager> load_connection_manager(std::string& why);

/// The same from another file, each time anew.
std::shared_ptr<ConnectionManager> load_connection_manager_from(const char* file, std::string& why);

}  // namespace weft::p2p::verbs
