// The jobs of the slot tests.
#pragma once

#include "tests/support/ranks.hpp"
