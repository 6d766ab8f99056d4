// Memory of a peer that moves every message through the heap.
#pragma once

namespace weft::bench {

/// Makes this process keep the memory that it frees, in one heap. By default glibc maps a block of
/// 128 KiB or more when it is allocated and unmaps it when it is freed: each message of a megabyte
/// then costs the page faults of a megabyte. Call it before any thread starts.
void keep_freed_memory();

}  // namespace weft::bench
