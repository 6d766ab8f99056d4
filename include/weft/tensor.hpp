// Tensors: element type, shape, and the memory that holds the elements.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weft/api.hpp"
#include "weft/device.hpp"
#include "weft/float16.hpp"

namespace weft {

/// The type of a tensor's elements. `boolean` is one byte; any value but 0 is true.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8, boolean };

/// The type's name, e.g. "f32".
WEFT_API std::string_view name(DType dtype) noexcept;
/// Bytes of one element.
WEFT_API std::size_t size_of(DType dtype) noexcept;

/// A C++ type that is the element type of some DType.
template <typename T>
concept Element = std::same_as<T, double> || std::same_as<T, float> || std::same_as<T, f16> ||
    std::same_as<T, bf16> || std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t> || std::same_as<T, bool>;

/// The DType of a C++ element type.
template <Element T>
constexpr DType dtype_of() noexcept {
  if constexpr (std::same_as<T, double>) return DType::f64;
  if constexpr (std::same_as<T, float>) return DType::f32;
  if constexpr (std::same_as<T, f16>) return DType::f16;
  if constexpr (std::same_as<T, bf16>) return DType::bf16;
  if constexpr (std::same_as<T, std::int64_t>) return DType::i64;
  if constexpr (std::same_as<T, std::int32_t>) return DType::i32;
  if constexpr (std::same_as<T, std::int8_t>) return DType::i8;
  if constexpr (std::same_as<T, std::uint8_t>) return DType::u8;
  return DType::boolean;
}

/// Up to eight dimensions, outermost first. An empty shape is a scalar (one element).
class WEFT_API Shape {
 public:
  static constexpr std::size_t kMaxDims = 8;
  /// Limits the bytes of a tensor to 63 bits, whatever its element type.
  static constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 8;

  Shape() noexcept = default;
  /// Throws Error(bad_argument) if there are more than 8 dimensions, one is negative, or their
  /// product is above kMaxElements.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  /// The number of dimensions.
  std::size_t dims() const noexcept { return count_; }
  /// The size of dimension `i`, which must be below dims().
  std::int64_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  /// The product of the dimensions; 1 for a scalar.
  std::int64_t elements() const noexcept { return elements_; }
  /// For example "[2, 3]"; "[]" for a scalar.
  std::string text() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.count_ != b.count_ || a.elements_ != b.elements_) return false;
    for (std::size_t i = 0; i < a.count_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, kMaxDims> dims_{};
  std::size_t count_ = 0;
  std::int64_t elements_ = 1;
};

/// The memory of tensors, which share its ownership: the last one frees it.
class WEFT_API Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Identifies the arena of the memory; null for the user's own memory.
  const void* arena() const noexcept { return arena_; }
  /// Host memory, or the GPU that has the memory: the processor must not touch data() then.
  Memory memory() const noexcept { return memory_; }

 protected:
  Storage(std::byte* data, std::size_t bytes, const void* arena, Memory memory = {}) noexcept
      : data_(data), bytes_(bytes), arena_(arena), memory_(memory) {}

 private:
  std::byte* data_;
  std::size_t bytes_;
  const void* arena_;
  Memory memory_;
};

/// A row-major array in host or GPU memory, dense unless made with strides. Copying a Tensor copies
/// the handle, not the elements. World::allocate makes tensors in the rank's arena, which peers
/// reach without a copy; World::adopt makes them from the user's own memory; Tensor::wrap only
/// describes memory that the user owns and keeps alive. Thread-safety: the handle is a value;
/// guarding the elements is up to the user.
///
/// A tensor in GPU memory is taken by World::copy, by puts, gets, messages, Rendezvous::send and
/// Collectives so far; all other calls that would read or write its elements refuse it
/// (Code::bad_argument) and name its GPU.
///
/// A tensor that has elements by its shape but no memory for them is refused by every call that
/// would read or write its elements (Code::bad_argument): one that was default-constructed (a
/// scalar by its shape), moved from, or wrapped around a null pointer.
class WEFT_API Tensor {
 public:
  Tensor() noexcept = default;
  Tensor(const Tensor&) noexcept = default;
  Tensor& operator=(const Tensor&) noexcept = default;
  /// Leaves `other` without memory.
  Tensor(Tensor&& other) noexcept { take(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~Tensor() = default;
  /// A dense tensor at byte `offset` of `storage`, whose ownership it shares. Throws
  /// Error(bad_argument) if it does not lie within `storage`, or if `dtype` is no value of DType.
  Tensor(std::shared_ptr<Storage> storage, std::size_t offset, DType dtype, const Shape& shape);
  /// Describes the user's memory at `data`, without owning or registering it: the caller keeps it
  /// alive, and a put from it is staged (copied).
  static Tensor wrap(void* data, DType dtype, const Shape& shape) noexcept;
  /// The same with `strides`: for each dimension the distance between neighbours, in elements.
  /// Throws Error(bad_argument) if a stride is negative, if their number is not shape.dims(), or if
  /// the last element lies further away than memory can hold.
  static Tensor wrap(void* data, DType dtype, const Shape& shape,
                     std::span<const std::int64_t> strides);
  /// The same for a dense tensor in `memory`, such as what cudaMalloc() gave. The GPU is not asked.
  /// Throws Error(bad_argument) for Memory::gpu(), which names no GPU.
  static Tensor wrap(void* data, DType dtype, const Shape& shape, Memory memory);

  /// True for a tensor without memory, such as a default-constructed one.
  bool empty() const noexcept { return data_ == nullptr; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  /// Bytes of all elements, which is what a transfer moves. They are contiguous only in a dense
  /// tensor.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Host memory, or the GPU that has the elements.
  Memory memory() const noexcept { return memory_; }
  /// The address of the first element; for memory of a GPU one that the processor must not touch.
  std::byte* data() const noexcept { return data_; }
  /// True if the elements are contiguous in row-major order.
  bool dense() const noexcept { return dense_; }
  /// The distance between neighbours along dimension `i`, in elements.
  std::int64_t stride(std::size_t i) const noexcept;
  /// Bytes from the start of the first element to the end of the last; bytes() if dense.
  std::size_t extent() const noexcept;
  /// Storage::arena(); null for wrapped memory.
  const void* arena() const noexcept { return storage_ ? storage_->arena() : nullptr; }
  /// Null for wrapped memory.
  const std::shared_ptr<Storage>& storage() const noexcept { return storage_; }

  /// The elements of a dense tensor. T is the tensor's element type, or std::uint8_t for the bytes
  /// of any type. Throws Error(bad_argument) otherwise, and for a tensor in GPU memory, whose GPU
  /// it names.
  template <Element T>
  std::span<T> as() const {
    if ((dtype_of<T>() != dtype_ && !std::same_as<T, std::uint8_t>) || !dense_ || memory_.is_gpu())
      refuse_element(dtype_of<T>());
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  /// The elements from `first` on (row-major) as a tensor of `shape` over the same memory. Throws
  /// Error(bad_argument) if they don't lie within this tensor or it is not dense.
  Tensor part(std::int64_t first, const Shape& shape) const;
  /// All elements of a dense tensor as one of `shape`, over the same memory, which may be a GPU's.
  /// Throws Error(bad_argument) if `shape` has another number of elements or the tensor is not
  /// dense.
  Tensor reshape(const Shape& shape) const;
  /// Indices `first` to `first` + `count` - 1 of dimension `dim`, over the same memory: for example
  /// columns of a matrix. Throws Error(bad_argument) if the tensor does not have them.
  Tensor slice(std::size_t dim, std::int64_t first, std::int64_t count) const;
  /// dtype and shape, for example "f32[2, 3]".
  std::string text() const;

 private:
  [[noreturn]] void refuse_element(DType asked) const;
  void settle_density() noexcept;
  void take(Tensor& other) noexcept {
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    dtype_ = other.dtype_;
    dense_ = other.dense_;
    memory_ = other.memory_;
    shape_ = other.shape_;
    strides_ = other.strides_;
    storage_ = std::move(other.storage_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  DType dtype_ = DType::u8;
  bool dense_ = true;
  Memory memory_;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxDims> strides_{};  ///< only if not dense
  std::shared_ptr<Storage> storage_;
};

/// Calls `act(data, bytes)` for every contiguous run of a tensor's elements, in row-major order:
/// once for a dense tensor, never for a tensor without elements.
template <typename Act>
void for_each_run(const Tensor& tensor, const Act& act) {
  if (tensor.bytes() == 0) return;
  if (tensor.dense()) {
    act(tensor.data(), tensor.bytes());
    return;
  }
  const std::size_t element = size_of(tensor.dtype());
  const Shape& shape = tensor.shape();
  // A run covers the innermost dimensions that are contiguous among themselves.
  std::size_t outer = shape.dims();
  std::int64_t run = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || tensor.stride(outer - 1) == run))
    run *= shape[--outer];
  std::array<std::int64_t, Shape::kMaxDims> at{};
  std::int64_t offset = 0;
  for (;;) {
    act(tensor.data() + static_cast<std::size_t>(offset) * element,
        static_cast<std::size_t>(run) * element);
    std::size_t dim = outer;
    for (; dim > 0; --dim) {
      offset += tensor.stride(dim - 1);
      if (++at[dim - 1] < shape[dim - 1]) break;
      offset -= tensor.stride(dim - 1) * shape[dim - 1];
      at[dim - 1] = 0;
    }
    if (dim == 0) return;
  }
}

}  // namespace weft
