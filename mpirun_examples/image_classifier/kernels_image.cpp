#include "kernels_image.hpp"

#if defined(IMAGES_FATBIN)
// The linker takes the file as it is.
asm(".section .rodata\n"
    ".balign 16\n"
    "images_fatbin:\n"
    ".incbin \"" IMAGES_FATBIN
    "\"\n"
    ".previous\n");
extern "C" const char images_fatbin[] __attribute__((visibility("hidden")));
#endif

namespace images {

const void* kernels_image() noexcept {
#if defined(IMAGES_FATBIN)
  return images_fatbin;
#else
  return nullptr;
#endif
}

}  // namespace images
