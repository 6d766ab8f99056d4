// The training job: one rank's work from joining to the closing line.
#pragma once

#include "options.hpp"
#include "text.hpp"
#include "weft/world.hpp"

namespace charlm {

/// Trains on `text`. Every rank of the world is a worker, a server shard, or both; rank 0 prints.
/// Returns an ExitCode after leaving the world. Throws weft::Error if the job fails, UsageError if
/// the options don't suit the job.
int train(weft::World& world, const Options& options, const Text& text);

}  // namespace charlm
