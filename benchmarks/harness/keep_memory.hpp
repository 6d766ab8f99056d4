// Heap settings for a peer that allocates a buffer per message.
#pragma once

namespace weft::bench {

/// Makes this process keep freed memory in one heap. By default glibc maps blocks of 128 KiB or
/// more when they are allocated and unmaps them when they are freed, so each 1 MiB message would
/// cost the page faults of 1 MiB. Call before any thread starts.
void keep_freed_memory();

}  // namespace weft::bench
