// The compiled kernels, a part of this program.
#pragma once

namespace images {

/// Null if this program was built without nvcc.
const void* kernels_image() noexcept;

}  // namespace images
