#include "tests/cuda/driver/machine.hpp"

#include <algorithm>
#include <cstring>

#include "tests/cuda/driver/capture.hpp"
#include "tests/cuda/driver/environment.hpp"
#include "tests/cuda/driver/memory.hpp"
#include "tests/cuda/driver/streams.hpp"

namespace weft::stand_in {

ThreadState::~ThreadState() {
  if (pushed == 0) return;
  const std::lock_guard lock(machine().mutex);
  machine().complain("a thread ended with " + std::to_string(pushed) +
                     " contexts pushed and not popped");
}

Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

ThreadState& Machine::thread() noexcept {
  thread_local ThreadState state;
  return state;
}

Machine::Machine() { set_up(options_of_environment()); }

void Machine::set_up(const Options& wanted) {
  options = wanted;
  gpus.clear();
  for (std::size_t i = 0; i < options.gpus.size(); ++i) {
    Gpu& gpu = gpus.emplace_back();
    gpu.options = options.gpus[i];
    gpu.context.device = static_cast<int>(i);
  }
  complaints.clear();
  counts.clear();
  refusals.clear();
  twins.clear();
  claimed_ends = 0;
  flushes_ignored = false;
  forgotten_waits = 0;
  forgotten_words = 0;
  random.seed(options.seed);
}

Context Machine::current() const noexcept {
  const auto& contexts = thread().contexts;
  return contexts.empty() ? nullptr : contexts.back();
}

Machine::Call::Call(Machine& machine, const char* function, bool needs_context, Nature nature)
    : lock(machine.mutex), machine_(machine) {
  ++machine.counts[function];
  if (thread().in_host_function) {
    machine.complain(std::string(function) + ": called by a host function of a stream");
    answer_ = DriverStatus::not_permitted;
    return;
  }
  if (machine.options.refused == function) {
    answer_ = DriverStatus::not_permitted;
    return;
  }
  if (const auto refusal = machine.refusals.find(function);
      refusal != machine.refusals.end() && --refusal->second.left <= 0) {
    answer_ = refusal->second.status;
    machine.refusals.erase(refusal);
    return;
  }
  if (!machine.initialised) {
    answer_ = DriverStatus::not_initialized;
    return;
  }
  if (needs_context) {
    const Context context = machine.current();
    if (context == nullptr || context->retained == 0) {
      machine.complain(std::string(function) + ": the thread has no current context");
      answer_ = DriverStatus::invalid_context;
      return;
    }
    if (answer_ = gpu().fault; stopped()) return;
  }
  if (nature == Nature::waits && !Machine::thread().for_application && a_stream_waits_on_a_word())
    machine.complain(std::string(function) + ": called while a stream waits on a word");
  if (nature != Nature::plain) answer_ = refusal_by_captures(function);
}

Gpu& Machine::Call::gpu() const noexcept {
  return machine_.gpus[static_cast<std::size_t>(machine_.current()->device)];
}

bool is_live(const void* object, const char* kind) {
  const auto found = machine().objects.find(object);
  return found != machine().objects.end() && found->second == kind;
}

void forget(const void* object) { machine().objects.erase(object); }

std::vector<std::string> Machine::leftovers() {
  std::map<std::string, int> kinds;
  for (const auto& [object, kind] : objects) ++kinds[kind];
  add_memory_leftovers(kinds);
  for (const Gpu& gpu : gpus)
    if (gpu.context.retained > 0)
      kinds["retains of the context of device " + std::to_string(gpu.context.device)] =
          gpu.context.retained;
  std::vector<std::string> list;
  for (const auto& [kind, count] : kinds) list.push_back(kind + ": " + std::to_string(count));
  return list;
}

namespace {

class MachineControl final : public Control {
 public:
  std::vector<std::string> restart(const Options& options) override {
    Lock lock(machine().mutex);
    auto left = machine().leftovers();
    if (!left.empty()) return left;
    end_null_streams(lock);
    forget_freed_memory();
    machine().set_up(options);
    return {};
  }
  std::vector<std::string> complaints() override {
    const std::lock_guard lock(machine().mutex);
    return machine().complaints;
  }
  std::vector<std::string> take_complaints() override {
    const std::lock_guard lock(machine().mutex);
    return std::exchange(machine().complaints, {});
  }
  std::vector<std::string> leftovers() override {
    const std::lock_guard lock(machine().mutex);
    return machine().leftovers();
  }
  std::uint64_t calls(const std::string& function) override {
    const std::lock_guard lock(machine().mutex);
    return machine().counts[function];
  }
  void refuse(const std::string& function, int nth, DriverStatus status) override {
    const std::lock_guard lock(machine().mutex);
    machine().refusals[function] = {nth, status};
  }
  void lose(Device device, DriverStatus status) override {
    const std::lock_guard lock(machine().mutex);
    machine().gpus[static_cast<std::size_t>(device)].fault = status;
    machine().changed.notify_all();
  }
  void forget_waits(int waits) override {
    const std::lock_guard lock(machine().mutex);
    machine().forgotten_waits = waits;
  }
  void forget_words(int waits) override {
    const std::lock_guard lock(machine().mutex);
    machine().forgotten_words = waits;
  }
  void claim_ends(int questions) override {
    const std::lock_guard lock(machine().mutex);
    machine().claimed_ends = questions;
  }
  void ignore_flushes(bool ignore) override {
    const std::lock_guard lock(machine().mutex);
    machine().flushes_ignored = ignore;
  }
  bool nic_reaches(DevicePointer pointer, std::size_t bytes) override {
    const std::lock_guard lock(machine().mutex);
    return reach_by_nic(pointer, bytes).memory != nullptr;
  }
  bool is_dma_buf(int fd, std::size_t offset, DevicePointer pointer) override {
    const std::lock_guard lock(machine().mutex);
    const NicReach at = reach_by_nic(pointer, 1);
    return at.memory != nullptr && at.offset == offset && Physical::import(fd) == at.memory;
  }
  void nic_writes(DevicePointer to, const std::byte* from, std::size_t bytes) override {
    const std::lock_guard lock(machine().mutex);
    write_by_nic(reach_by_nic(to, bytes), from, bytes);
  }
  void nic_reads(std::byte* to, DevicePointer from, std::size_t bytes) override {
    const std::lock_guard lock(machine().mutex);
    const NicReach at = reach_by_nic(from, bytes);
    flush_nic_writes(at.memory->device());
    std::memcpy(to, at.memory->hidden() + at.offset, bytes);
  }
  void act_for_application(bool on) override { Machine::thread().for_application = on; }
  void call_begins(const char* call) override {
    ThreadState& thread = Machine::thread();
    thread.call = call;
    thread.contexts_before = thread.contexts;
  }
  void call_ends() override {
    ThreadState& thread = Machine::thread();
    if (thread.contexts == thread.contexts_before) return;
    const std::lock_guard lock(machine().mutex);
    machine().complain(std::string(thread.call) + ": left another current context");
  }
  void add_twin(const std::string& kernel, Twin twin) override {
    const std::lock_guard lock(machine().mutex);
    machine().twins[kernel] = std::move(twin);
  }
  std::byte* reach(DevicePointer pointer, std::size_t bytes, Device device) override {
    const std::lock_guard lock(machine().mutex);
    return reach_memory(pointer, bytes, device, Reach::read_write).data;
  }
  int step(int most) override {
    Lock lock(machine().mutex);
    return stand_in::step(lock, most);
  }
  void stop_clock(bool on) override {
    const Lock lock(machine().mutex);
    machine().clock_stands = on;
  }
  void tick(std::size_t bytes) override {
    Lock lock(machine().mutex);
    stand_in::tick(lock, bytes);
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Control* weft_stand_in() {
  static auto* const control = new MachineControl;
  return control;
}

}  // namespace weft::stand_in
