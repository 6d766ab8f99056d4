// The JSON of weft-topo, schema weft-topo/1. What scripts may rely on: "schema", "source", "gpus"
// and "nics" with the fields that docs/nic-choice.md lists. "machine" is the whole model, and what
// an import reads.
#pragma once

#include <string>

#include "topology/model/model.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// `selection` is of rank_per_gpu(model): its choices are the "gpus". Ends with a newline.
std::string to_json(const Model& model, const Selection& selection);

/// The same of ranks:
/// {"schema":"weft-topo/1","source":...,"ranks":[{"rank":0,"gpu":...,"nic":...}]}.
std::string ranks_to_json(const Model& model, const Selection& selection);

}  // namespace weft::topology
