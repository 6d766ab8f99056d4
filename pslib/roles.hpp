// Who works, who serves, and what the slots of a table are called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Options with nothing left open. A value.
struct Roles {
  int rank = 0;  ///< this rank
  int size = 0;
  std::vector<int> workers;
  std::vector<int> servers;
  std::size_t split_bytes = 0;

  /// Throws Error(bad_argument) as ParameterServer's constructor says.
  Roles(const World& world, const Options& options);

  bool works() const noexcept;
  bool serves() const noexcept;
  /// Every rank but this one.
  std::vector<int> others() const;
};

/// "ps/<server>/<table>/<part>".
std::string slot_name(std::string_view server, std::string_view table, std::string_view part);

/// What a published slot of `elements` f32 looks like under bulk-synchronous training: a buffer is
/// read by all before it is written again, as the protocol itself sees to.
SlotSpec published(std::string name, std::int64_t elements);

}  // namespace weft::pslib
