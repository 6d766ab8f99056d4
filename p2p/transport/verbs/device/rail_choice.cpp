#include "p2p/transport/verbs/device/rail_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/notification_table.hpp"
#include "p2p/transport/verbs/device/verbs_address.hpp"

namespace weft::p2p::verbs {
namespace {

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

[[noreturn]] void refuse_twice(const std::string& list, const std::string& port) {
  throw_error(Code::bad_config, "join", fmt::format("WEFT_NIC=\"{}\" names {} twice", list, port),
              "name each port once");
}

/// Chooses one port after another.
class Chooser {
 public:
  Chooser(std::span<const Port> ports, const VerbsOptions& options) : ports_(ports), one_(options) {
    const auto most = static_cast<std::size_t>(
        std::max(1, NotificationTable::kMaxQueuePairs / std::max(1, options.queue_pairs)));
    most_ = std::min(kMostRails, most);
    if (options.rails > 0) most_ = std::min(most_, static_cast<std::size_t>(options.rails));
    if (options.connection_manager) most_ = 1;
  }

  void take_named(const std::string& list) {
    const std::vector<std::string> names = names_in(list);
    check(names, list);
    for (const std::string& name : names) {
      if (choice_.nearest.chosen && is_full()) break;
      one_.nic = name;
      PortChoice one = choose_port(ports_, one_);
      if (!one.chosen)
        choice_.notes.push_back(fmt::format("WEFT_NIC={}: {} is left out: {}", list, name,
                                            fmt::join(one.passed, "; ")));
      if (!choice_.nearest.chosen) {
        std::ranges::move(choice_.nearest.passed, std::back_inserter(one.passed));
        one.by_setting |= choice_.nearest.by_setting && !one.chosen;
        choice_.nearest = std::move(one);
      } else if (one.chosen) {
        take(*one.chosen);
      }
    }
    if (!choice_.nearest.chosen) choice_.notes.clear();  // the error says it all
  }

  void take_nearest(const topology::RankPlacement& placement) {
    choice_.nearest = choose_port(ports_, one_, placement);
    if (!choice_.nearest.chosen) return;
    for (const auto& [nic, number] : placement.rails)
      for (std::size_t i = 0; i < ports_.size(); ++i)
        if (ports_[i].device == nic && (number == 0 || ports_[i].number == number)) take(i);
  }

  void take_best() {
    if (!choice_.nearest.chosen) return;
    std::vector<std::size_t> best;
    for (std::size_t i = 0; i < ports_.size(); ++i)
      if (fault_of(ports_[i], one_).empty()) best.push_back(i);
    std::ranges::sort(
        best, [this](std::size_t a, std::size_t b) { return is_better(ports_[a], ports_[b]); });
    for (const std::size_t i : best) take(i);
  }

  RailChoice give() { return std::move(choice_); }

 private:
  bool is_full() const noexcept { return 1 + choice_.further.size() >= most_; }
  bool is_taken(std::size_t port) const {
    return choice_.nearest.chosen == port ||
           std::ranges::any_of(choice_.further, [&](const auto& one) { return one.port == port; });
  }
  void check(const std::vector<std::string>& names, const std::string& list) const {
    for (auto name = names.begin(); name != names.end(); ++name) {
      if (name->empty() ||
          std::ranges::none_of(ports_, [&](const Port& port) { return is_named(port, *name); }))
        refuse_name(ports_, *name);
      for (const Port& port : ports_)
        if (is_named(port, *name) && std::any_of(names.begin(), name, [&](const auto& other) {
              return is_named(port, other);
            }))
          refuse_twice(list, port.name());
    }
  }

  void take(std::size_t index) {
    if (is_full() || is_taken(index)) return;
    const Port& port = ports_[index];
    const std::string why_not = why_not_beside(port);
    if (why_not.empty())
      choice_.further.push_back({index, gid_of(port, one_)});
    else
      choice_.notes.push_back(fmt::format("{} is left out: it {}", port.name(), why_not));
  }

  /// Empty: it can carry tensors together with the nearest.
  std::string why_not_beside(const Port& port) const {
    if (std::string fault = fault_of(port, one_); !fault.empty()) return fault;
    const Port& nearest = ports_[*choice_.nearest.chosen];
    if (port.link_layer() != nearest.link_layer() || port.transport != nearest.transport)
      return fmt::format("is of another kind than {} ({}, not {})", nearest.name(), text(port),
                         text(nearest));
    const GidChoice gid = gid_of(port, one_);
    if (!gid.entry) return "has no address: " + gid.why;
    const ibv_gid_entry& other = *choice_.nearest.gid.entry;
    if (gid.entry->gid_type != other.gid_type ||
        is_ipv4(bytes_of(gid.entry->gid)) != is_ipv4(bytes_of(other.gid)))
      return fmt::format("has a GID of another type than {}", nearest.name());
    return {};
  }

  const std::span<const Port> ports_;
  VerbsOptions one_;  ///< with the name of one port
  std::size_t most_ = 1;
  RailChoice choice_;
};

}  // namespace

RailChoice choose_rails(std::span<const Port> ports, const VerbsOptions& options,
                        const topology::RankPlacement& placement) {
  Chooser rails(ports, options);
  if (!options.nic.empty()) {
    rails.take_named(options.nic);
    return rails.give();
  }
  rails.take_nearest(placement);
  if (options.rails > 0 && placement.nic.empty()) rails.take_best();
  return rails.give();
}

}  // namespace weft::p2p::verbs
