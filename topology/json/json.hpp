// The JSON output of weft-topo, schema weft-topo/1. Scripts may rely on "schema", "source", "gpus"
// and "nics" with the fields in docs/nic-choice.md. "machine" is the whole model, which import
// reads back.
#pragma once

#include <string>

#include "topology/model/model.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// `selection` must be that of rank_per_gpu(model): its choices become "gpus". Ends with a newline.
std::string to_json(const Model& model, const Selection& selection);

/// The same for ranks:
/// {"schema":"weft-topo/1","source":...,"ranks":[{"rank":0,"gpu":...,"nic":...}]}.
std::string ranks_to_json(const Model& model, const Selection& selection);

}  // namespace weft::topology
