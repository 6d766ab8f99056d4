#include "p2p/transport/verbs/device/device.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "p2p/transport/verbs/device/port_list.hpp"
#include "p2p/transport/verbs/device/rail_choice.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::uint8_t kMostReads = 16;

[[noreturn]] void refuse_all(const PortChoice& choice) {
  if (choice.passed.empty())
    throw_error(Code::unreachable, "join", "this machine has no RDMA device",
                "load the NIC's driver, install rdma-core and ibverbs-providers, and bring "
                "/dev/infiniband into the container");
  std::string reasons;
  for (const std::string& reason : choice.passed) reasons += (reasons.empty() ? "" : "; ") + reason;
  throw_error(choice.by_setting ? Code::bad_config : Code::unreachable, "join",
              "no RDMA port can be used: " + reasons,
              choice.by_setting ? "name a GID that is there, or unset WEFT_IB_GID to choose by rule"
                                : "`rdma link` and `ibv_devinfo -v` show them");
}

std::uint8_t mtu_of(const VerbsOptions& options, ibv_mtu active, const std::string& port) {
  if (options.mtu == 0) return static_cast<std::uint8_t>(active);
  if (options.mtu > bytes_of(active))
    throw_error(Code::bad_config, "join",
                fmt::format("WEFT_IB_MTU={}: the active MTU of {} is {}", options.mtu, port,
                            bytes_of(active)),
                "lower WEFT_IB_MTU, or raise the MTU of the port's network interface");
  auto mtu = static_cast<int>(IBV_MTU_256);
  while (bytes_of(static_cast<ibv_mtu>(mtu)) < options.mtu) ++mtu;
  return static_cast<std::uint8_t>(mtu);
}

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, const std::string& from) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), Size - 1));
}

/// An InfiniBand subnet has a prefix of its own; the subnet of an IP address is known to its
/// interface, and guessed where that is out of sight (in a container).
std::uint8_t network_bits_of(const VerbsAddress& address) {
  constexpr std::uint8_t kSubnetPrefix = 64;
  constexpr std::uint8_t kOrdinaryIpv4 = 96 + 24;
  if (address.link_layer != IBV_LINK_LAYER_ETHERNET) return kSubnetPrefix;
  for (const InterfaceAddress& one : interface_addresses())
    if (one.ip == address.gid) return static_cast<std::uint8_t>(one.prefix_bits);
  return is_ipv4(address.gid) ? kOrdinaryIpv4 : kSubnetPrefix;
}

/// The options of one device, with the GPUs that are too far from it.
VerbsOptions for_device(VerbsOptions options, const std::string& device,
                        const topology::RankPlacement& placement) {
  for (const topology::FarGpu& far : placement.far_gpus)
    if (far.nic == device) options.far_gpus.emplace_back(far.pci, far.reason);
  return options;
}

void make_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    os::throw_system_error("fcntl", "the descriptor of an RDMA device's events");
}

}  // namespace

std::vector<std::unique_ptr<Device>> Device::open_all(const std::shared_ptr<Verbs>& verbs,
                                                      const VerbsOptions& options, Log& log,
                                                      const topology::RankPlacement& placement) {
  PortList list = list_ports(*verbs);
  const RailChoice choice = choose_rails(list.ports, options, placement);
  if (!choice.nearest.chosen) refuse_all(choice.nearest);
  const auto open = [&](std::size_t index, const GidChoice& gid) {
    const Port& port = list.ports[index];
    Context context = std::move(list.devices[port.device_index]);
    if (!context) context = open_again(*verbs, port.device);  // another port of a device
    if (!context) os::throw_system_error("ibv_open_device", port.name());
    return std::unique_ptr<Device>(new Device(verbs, for_device(options, port.device, placement),
                                              log, std::move(context), port, gid));
  };
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(open(*choice.nearest.chosen, choice.nearest.gid));
  devices.front()->tell(choice.nearest);
  for (const RailChoice::Further& further : choice.further) try {
      devices.push_back(open(further.port, further.gid));
      log.info(Subsystem::path, "verbs: large tensors also go by {}", devices.back()->name());
    } catch (const Error& error) {
      log.warn(Subsystem::path, "verbs: {} is left out: {}", list.ports[further.port].name(),
               error.detail().message);
    }
  for (const std::string& note : choice.notes) log.warn(Subsystem::path, "verbs: {}", note);
  return devices;
}

Device::Device(std::shared_ptr<Verbs> verbs, const VerbsOptions& options, Log& log,
               const topology::RankPlacement& placement)
    : verbs_(std::move(verbs)), options_(options), log_(log) {
  PortList list = list_ports(*verbs_);
  const PortChoice choice = choose_port(list.ports, options_, placement);
  if (!choice.chosen) refuse_all(choice);
  const Port& port = list.ports[*choice.chosen];
  open(std::move(list.devices[port.device_index]), port, choice.gid);
  tell(choice);
}

Device::Device(std::shared_ptr<Verbs> verbs, const VerbsOptions& options, Log& log, Context context,
               const Port& port, const GidChoice& gid)
    : verbs_(std::move(verbs)), options_(options), log_(log) {
  open(std::move(context), port, gid);
}

void Device::open(Context context, const Port& port, const GidChoice& gid) {
  context_ = std::move(context);
  take(port, gid);
  make_non_blocking(context_->async_fd);
  read_limits(port.attributes);
  check_memory();
  domain_ = ProtectionDomain(*verbs_, verbs_->alloc_pd(context_.get()));
  if (!domain_) os::throw_system_error("ibv_alloc_pd", name_);
}

void Device::tell(const PortChoice& choice) const {
  log_.info(Subsystem::path, "verbs: {} was chosen: {}", name_, choice.why);
  for (const std::string& passed : choice.passed)
    log_.info(Subsystem::path, "verbs: passed over: {}", passed);
  log_.info(Subsystem::path, "verbs: settings in force: {}", options_.text());
  if (!verbs_->fork_safe())
    log_.warn(
        Subsystem::path,
        "this process must not fork while it uses RDMA: the kernel or the library can't keep "
        "registered memory from being copied; start helpers by exec or spawn, or before join");
}

void Device::take(const Port& port, const GidChoice& gid) {
  name_ = port.name();
  port_ = port.number;
  gid_index_ = static_cast<std::uint8_t>(gid.entry->gid_index);
  needs_global_route_ = (port.attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  if (options_.pkey_index >= std::max<int>(1, port.attributes.pkey_tbl_len))
    throw_error(Code::bad_config, "join",
                fmt::format("WEFT_IB_PKEY={}: {} has {} partition keys, from index 0 on",
                            options_.pkey_index, name_, port.attributes.pkey_tbl_len),
                "see /sys/class/infiniband/*/ports/*/pkeys");
  address_.present = 1;
  address_.link_layer = port.link_layer();
  address_.mtu = mtu_of(options_, port.attributes.active_mtu, name_);
  address_.queue_pairs = static_cast<std::uint8_t>(options_.queue_pairs);
  address_.lid = port.attributes.lid;
  address_.iwarp = port.transport == IBV_TRANSPORT_IWARP ? 1 : 0;
  address_.gid_type = static_cast<std::uint8_t>(gid.entry->gid_type);
  address_.gid = bytes_of(gid.entry->gid);
  address_.rate = rate_of(port.attributes);
  address_.network_bits = network_bits_of(address_);
  copy_text(address_.device, name_);

  log_.info(Subsystem::path, "verbs: {} ({}), GID {} ({}, {}): {}", name_, verbs::text(port),
            gid.entry->gid_index, gid_text(address_.gid), gid_type_text(gid.entry->gid_type),
            gid.why);
}

void Device::read_limits(const ibv_port_attr& port) {
  ibv_device_attr device{};
  if (const int error = verbs_->query_device(context_.get(), &device))
    os::throw_system_error("ibv_query_device", name_, error);
  const auto count = [](int value) { return static_cast<std::uint32_t>(std::max(value, 0)); };
  limits_.max_message = port.max_msg_sz;
  if (options_.max_message != 0)
    limits_.max_message = std::min<std::uint64_t>(limits_.max_message, options_.max_message);
  limits_.max_depth = count(device.max_qp_wr);
  limits_.max_pieces = static_cast<std::uint32_t>(std::max(device.max_sge, 1));
  limits_.max_queue_pairs = count(device.max_qp);
  limits_.max_completions = count(device.max_cqe);
  limits_.max_regions = count(device.max_mr);
  limits_.max_region_bytes = device.max_mr_size;
  limits_.max_reads = static_cast<std::uint8_t>(
      std::clamp(std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom), 1,
                 static_cast<int>(kMostReads)));
  address_.reads = limits_.max_reads;
  if (options_.depth > limits_.max_depth) {
    log_.warn(Subsystem::path, "WEFT_QUEUE_DEPTH={}: {} allows {}, which is taken", options_.depth,
              name_, limits_.max_depth);
    options_.depth = limits_.max_depth;
  }
}

void Device::check_memory() const {
  const RegistrationNeed need{.bytes = options_.arena_bytes,
                              .largest_region = options_.arena_bytes,
                              .regions = options_.arena_bytes == 0 ? 0U : 2U};
  if (auto lack = shortfall(need, limits_, locked_memory()))
    throw_error(Code::exhausted, "join", fmt::format("{}: {}", name_, lack->message),
                std::move(lack->hint));
}

MemoryRegion Device::register_memory(void* data, std::size_t bytes, int access) {
  if (ibv_mr* region = verbs_->reg_mr(domain_.get(), data, bytes, access)) return {*verbs_, region};
  const int error = errno;
  const LockedMemory memory = locked_memory();
  const bool no_room = error == ENOMEM || error == EPERM || error == EAGAIN || error == ENOSPC;
  throw Error(ErrorDetail{
      .code = no_room ? Code::exhausted : Code::system,
      .operation = "register",
      .message = fmt::format("{} bytes with {}: ibv_reg_mr: {}; {}; the device allows {} regions, "
                             "of at most {} bytes each",
                             bytes, name_, os::words(error), memory.text(), limits_.max_regions,
                             limits_.max_region_bytes),
      .hint = bytes > memory.left() ? kRaiseLockedMemory
              : no_room
                  ? "adopt fewer regions, use larger chunks (WEFT_ARENA_CHUNK), or less memory"
                  : "only memory that is mapped for writing can be registered"});
}

}  // namespace weft::p2p::verbs
