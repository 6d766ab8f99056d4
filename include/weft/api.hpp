// The mark of what libweft.so exports.
#pragma once

// These change the layout of std::string and std::vector, which the library and a program hand each
// other: such a program would link and then crash.
#if defined(_GLIBCXX_DEBUG)
#error "_GLIBCXX_DEBUG: weft is built without it; _GLIBCXX_ASSERTIONS changes no layout"
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "_GLIBCXX_USE_CXX11_ABI=0: weft is built with the C++11 ABI of std::string"
#endif

/// Stands before a public function and behind the `class` or `struct` of a public type that is not
/// wholly inline. Whatever does not have it is hidden in the shared library, and a program that
/// names it does not link.
#define WEFT_API [[gnu::visibility("default")]]
