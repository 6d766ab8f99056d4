// Kernels that are made of oneDNN's primitives.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/onednn/routine.hpp"
#include "bindings/onednn/scratch_pool.hpp"

namespace weft::dataflow::onednn {

/// The engine and the scratch memory that all kernels of one set share.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  ScratchPool scratch;
};

/// Adds the primitives for a node's attributes and shapes to a routine. Refuses those that it can't
/// compute by Operands::refuse.
using Build = void (*)(Routine& routine, const Operands& operands);

/// The result of a node of which an input has no element and an output has some.
enum class OfNothing : std::uint8_t {
  zeros,   ///< a sum of nothing
  refused  ///< there is none
};

/// The treatment of special inputs, for which no routine is made.
struct Rules {
  OfNothing of_nothing = OfNothing::refused;
  bool takes_any_dtype = false;
};

/// The routines of one definition, by attributes, dtypes and shapes. Thread-safety: all calls.
class RoutineCache {
 public:
  /// The number of sets of shapes that are kept, those used last.
  static constexpr std::size_t kKept = 256;

  RoutineCache(std::string definition, Build build, Rules rules, std::shared_ptr<Library> library)
      : definition_(std::move(definition)),
        build_(build),
        rules_(rules),
        library_(std::move(library)) {}

  /// Computes a node's outputs. Throws Error.
  void run(KernelCall& call);

 private:
  struct Input {
    bool is_there;
    DType dtype;
    Shape shape;
    friend bool operator==(const Input&, const Input&) = default;
  };
  /// One set of shapes. A routine is run by one thread at a time, so there may be several.
  struct Entry {
    std::uint64_t hash;
    Attributes attributes;
    std::vector<Input> inputs;
    std::vector<std::unique_ptr<Routine>> idle;
    std::size_t routines = 0;
    std::uint64_t last_use = 0;
  };
  class Borrowed;

  bool is_for(const Entry& entry, std::uint64_t hash, const Operands& operands) const;
  std::shared_ptr<Entry> entry_for(const Operands& operands);
  std::unique_ptr<Routine> take(Entry& entry, const Operands& operands);
  void compute(const Operands& operands);

  const std::string definition_;
  const Build build_;
  const Rules rules_;
  const std::shared_ptr<Library> library_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace weft::dataflow::onednn
