// Writes the stable part of weft-topo/1.
#include <nlohmann/json.hpp>

#include "topology/json/json.hpp"
#include "topology/json/machine.hpp"

namespace weft::topology {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(int value) { return value == kNone ? Json(nullptr) : Json(value); }

Json address_json(const std::optional<PciAddress>& address) {
  return address ? Json(address->text()) : Json(nullptr);
}

Json choice_json(const Model& model, const Choice& choice) {
  const auto nic_name = [&](int nic) { return model.nics[static_cast<std::size_t>(nic)].name; };
  const bool has_nic = choice.nic != kNone;
  Json json = Json::object();
  json["nic"] = has_nic ? Json(nic_name(choice.nic)) : Json(nullptr);
  json["port"] = choice.port > 0 ? Json(choice.port) : Json(nullptr);
  json["class"] = has_nic ? Json(name(choice.path.path_class)) : Json(nullptr);
  json["gdr"] = choice.gdr;
  json["bounce_numa"] = or_null(choice.bounce_numa);
  json["rails"] = Json::array();
  for (const int rail : choice.rails) json["rails"].push_back(nic_name(rail));
  json["reason"] = choice.reason;
  json["candidates"] = Json::array();
  for (const Candidate& candidate : choice.candidates)
    json["candidates"].push_back(
        {{"nic", nic_name(candidate.nic)},
         {"accepted", candidate.accepted},
         {"rail", candidate.rail},
         {"class", name(candidate.path.path_class)},
         {"hops", candidate.path.hops},
         {"gbytes", candidate.gbytes > 0 ? Json(candidate.gbytes) : Json(nullptr)},
         {"reason", candidate.reason}});
  return json;
}

Json gpus_json(const Model& model, const Selection& selection) {
  Json all = Json::array();
  for (const Choice& choice : selection.choices) {
    if (choice.gpu == kNone) continue;
    const Gpu& gpu = model.gpus[static_cast<std::size_t>(choice.gpu)];
    Json json = {{"name", gpu.name}, {"pci", address_json(model.address_of(gpu))}};
    json["numa"] = model.numa_of(gpu);
    json.update(choice_json(model, choice));
    all.push_back(std::move(json));
  }
  return all;
}

Json nics_json(const Model& model, const Selection& selection) {
  Json all = Json::array();
  for (std::size_t i = 0; i < model.nics.size(); ++i) {
    const Nic& nic = model.nics[i];
    const NicVerdict& verdict = selection.nics[i];
    Json json = {{"name", nic.name}, {"pci", address_json(model.address_of(nic))}};
    json["numa"] = model.numa_of(nic);
    json["state"] = name(verdict.state);
    json["gbps"] = verdict.gbits > 0 ? Json(verdict.gbits) : Json(nullptr);
    json["layer"] = name(verdict.layer);
    json["usable"] = verdict.usable;
    json["driven"] = verdict.not_driven.empty();
    json["reason"] = verdict.reason;
    all.push_back(std::move(json));
  }
  return all;
}

Json head(const Model& model) {
  return {{"schema", "weft-topo/1"}, {"source", name(model.origin)}};
}

/// Serializes `json`. Device names from the kernel or a file may not be UTF-8, so invalid bytes are
/// replaced.
std::string text_of(const Json& json) {
  constexpr int kIndent = 1;
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Model& model, const Selection& selection) {
  Json json = head(model);
  json["gpus"] = gpus_json(model, selection);
  json["nics"] = nics_json(model, selection);
  json["machine"] = machine_json(model);
  return text_of(json);
}

std::string ranks_to_json(const Model& model, const Selection& selection) {
  Json json = head(model);
  json["ranks"] = Json::array();
  for (const Choice& choice : selection.choices) {
    Json one = {{"rank", choice.rank}};
    const Gpu* gpu =
        choice.gpu == kNone ? nullptr : &model.gpus[static_cast<std::size_t>(choice.gpu)];
    one["gpu"] = gpu == nullptr ? Json(nullptr) : address_json(model.address_of(*gpu));
    one["numa"] = choice.numa;
    one.update(choice_json(model, choice));
    json["ranks"].push_back(std::move(one));
  }
  json["nics"] = nics_json(model, selection);
  return text_of(json);
}

}  // namespace weft::topology
