#include "p2p/slot/attach/slot_messages.hpp"

#include <fmt/format.h>

namespace weft::p2p {

SpecOnWire to_wire(const Contract& spec) noexcept {
  SpecOnWire wire;
  wire.name.set(spec.name);
  wire.dtype = static_cast<std::uint8_t>(spec.dtype);
  wire.dims = static_cast<std::uint8_t>(spec.shape.dims());
  wire.writer = static_cast<std::uint8_t>(spec.writer);
  wire.flow = static_cast<std::uint8_t>(spec.flow);
  wire.depth = spec.depth;
  wire.placement = static_cast<std::uint32_t>(spec.placement);
  for (std::size_t i = 0; i < spec.shape.dims(); ++i) wire.dim[i] = spec.shape[i];
  return wire;
}

std::optional<Contract> from_wire(const SpecOnWire& wire) {
  if (!wire.name.ended() || wire.dtype > static_cast<std::uint8_t>(DType::boolean) ||
      wire.dims > Shape::kMaxDims || wire.writer > static_cast<std::uint8_t>(Writer::owner) ||
      wire.flow > static_cast<std::uint8_t>(Flow::unsafe_synchronous) || wire.depth == 0 ||
      wire.depth > kMaxDepth || wire.placement > static_cast<std::uint32_t>(Placement::dynamic))
    return std::nullopt;
  Contract spec;
  spec.name = wire.name.get();
  spec.dtype = static_cast<DType>(wire.dtype);
  spec.depth = wire.depth;
  spec.writer = static_cast<Writer>(wire.writer);
  spec.flow = static_cast<Flow>(wire.flow);
  spec.placement = static_cast<Placement>(wire.placement);
  try {
    spec.shape = Shape(std::span<const std::int64_t>(wire.dim.data(), wire.dims));
  } catch (const Error&) {
    return std::nullopt;
  }
  return spec;
}

std::size_t payload_bytes(const Contract& spec) noexcept {
  if (spec.placement == Placement::dynamic) return DynamicRecord::bytes(spec.shape.dims());
  return static_cast<std::size_t>(spec.shape.elements()) * size_of(spec.dtype);
}

const char* written_by(Writer writer) noexcept {
  return writer == Writer::peer ? "written by a peer" : "written by its owner";
}

std::string describe(const Contract& spec) {
  const std::string shape = spec.placement == Placement::dynamic
                                ? fmt::format(" of {} dynamic dimensions", spec.shape.dims())
                                : spec.shape.text();
  return fmt::format("{}{} depth {}, {}, {}", name(spec.dtype), shape, spec.depth,
                     written_by(spec.writer),
                     spec.flow == Flow::credits ? "with credits" : "synchronous");
}

}  // namespace weft::p2p
