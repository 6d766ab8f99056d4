#include "p2p/transport/cuda/kernels/kernel_image.hpp"

#if defined(WEFT_KERNEL_IMAGE)
// The assembler takes the file in: it has some megabytes.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden kWeftKernelImage\n"
    ".globl kWeftKernelImage\n"
    "kWeftKernelImage:\n"
    ".incbin \"" WEFT_KERNEL_IMAGE
    "\"\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" const unsigned char kWeftKernelImage[];
#endif

namespace weft::p2p::cuda {

#if defined(WEFT_KERNEL_IMAGE)
const void* kernel_image() noexcept { return kWeftKernelImage; }
bool has_kernels() noexcept { return true; }
#else
const void* kernel_image() noexcept { return "built without nvcc"; }
bool has_kernels() noexcept { return false; }
#endif

}  // namespace weft::p2p::cuda
