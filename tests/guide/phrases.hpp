// The weft sides of the guide's phrase tables, each run and checked. Every rank of a job of four
// calls it. Throws weft::Error(mismatch) if one does not do what its row says.
#pragma once

#include "weft/world.hpp"

void phrases(weft::World& world);
