// WEFT_API: marks what libweft.so exports.
#pragma once

// These macros change the layout of std::string and std::vector, which cross the boundary between
// the library and a program. Such a program would link and then crash.
#if defined(_GLIBCXX_DEBUG)
#error "_GLIBCXX_DEBUG: weft is built without it; _GLIBCXX_ASSERTIONS changes no layout"
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "_GLIBCXX_USE_CXX11_ABI=0: weft is built with the C++11 ABI of std::string"
#endif

/// Stands in front of a public function, and after the `class` or `struct` of a public type that is
/// not wholly inline. Everything else is hidden in the shared library: a program that uses it does
/// not link.
#define WEFT_API [[gnu::visibility("default")]]
