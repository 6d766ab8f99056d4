#include "tests/threads/rendezvous/exchanges.hpp"
