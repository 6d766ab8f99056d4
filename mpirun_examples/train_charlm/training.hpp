// The training job: what one rank does from joining to the closing line.
#pragma once

#include "options.hpp"
#include "text.hpp"
#include "weft/world.hpp"

namespace charlm {

/// Trains on `text` with every rank of the world as a worker and a server shard, or as one of them;
/// rank 0 prints. Returns an ExitCode, and then the world has been left. Throws weft::Error when
/// the job fails, UsageError for options that don't suit it.
int train(weft::World& world, const Options& options, const Text& text);

}  // namespace charlm
