// The stand-in in processes that no test can talk to, as ranks under mpirun.
#pragma once

#include "tests/cuda/driver/control.hpp"

namespace weft::stand_in {

/// The options in WEFT_TEST_CUDA, for example "gpus=1 lazy seed=7 delay_us=50 strict": `gpus`,
/// `seed`, `delay_us`, `idle_ms` and `version` take a number; `lazy` sets the pace; `no_peers`
/// takes access to other GPUs away, `lossy` what is written to them; `mps`
/// has copies of a killed process go on; `apart` shows each rank of a
/// host one GPU, another one each; `refuse=NAME` forbids a function. With `strict` a process that
/// the stand-in complains of, or that leaves something over, says so as it ends and exits with
/// kComplained.
Options options_of_environment();

inline constexpr int kComplained = 97;

}  // namespace weft::stand_in
