// A copy that goes on after its process was killed, as under MPS.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace weft::stand_in {

/// A process that makes the copy, again and again for some seconds, if this process ends before
/// forget(). `to` is shared memory.
class LateWrite {
 public:
  LateWrite(std::byte* to, const std::byte* from, std::size_t bytes);
  LateWrite(const LateWrite&) = delete;
  LateWrite& operator=(const LateWrite&) = delete;
  ~LateWrite() { forget(); }

  /// The copy has been made, or will not be.
  void forget() noexcept;

 private:
  pid_t process_ = -1;
  int line_ = -1;  ///< whose end the process sees
};

}  // namespace weft::stand_in
