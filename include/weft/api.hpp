// The mark of what libweft.so exports.
#pragma once

/// Stands before a public function and behind the `class` or `struct` of a public type that is not
/// wholly inline. Whatever does not have it is hidden in the shared library, and a program that
/// names it does not link.
#define WEFT_API [[gnu::visibility("default")]]
