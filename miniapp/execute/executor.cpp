// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <Kokkos_Core.hpp>

#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>
#include <core/profiling_region.hpp>
#include <core/read_back.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/execute/lane_times.hpp>

namespace shardmark {
namespace {

constexpr auto phase_times = enum_table<Phase>(&LaneTimes::init, &LaneTimes::forward,
                                               &LaneTimes::backward, &LaneTimes::step);

// The regions that a Kokkos tool shows: a phase, in it the modules, kernels without a module, and
// waits for collectives.
std::string region_of(Phase phase) {
  return phase == Phase::step ? "optimizer" : std::string(to_string(phase));
}

std::string region_of(const Program& program, const Event& event) {
  if (is_collective(event.op)) return "wait for " + std::string(to_string(event.op));
  if (event.module >= 0) return program.model.modules[event.module].name;
  return std::string(to_string(event.kernel));
}

// All kernels run in one execution space, those of the host tier too: with CUDA that memory is
// pinned, and kernels reach it over the link. If they cannot reach it, an optimizer on the host is
// refused.
void require_reachable_host([[maybe_unused]] const Program& program) {
  if constexpr (!Kokkos::SpaceAccessibility<Space, HostMemory>::accessible) {
    for (const Segment& s : program.segments)
      for (const Event& e : s.events)
        if (e.op == Op::compute && e.tier == Tier::host)
          throw DeckError(
              "deepspeed.zero_optimization.offload_optimizer: an optimizer on the host beside a "
              "device is not modelled yet in this build: remove the key, or use a CPU-only build");
  }
}

// Kernels in which the host waits for the device, because it sends or reads back values.
bool host_waits_in(Kernel kernel) {
  return kernel == Kernel::init_param || kernel == Kernel::load_batch ||
         kernel == Kernel::overflow || kernel == Kernel::grad_norm || kernel == Kernel::clip;
}

}  // namespace

Executor::Executor(const Program& program, Model& model, std::vector<Communicator*> groups,
                   const Space& space, Ledger* ledger, ExecutorOptions options)
    : program_(program),
      model_(model),
      space_(space),
      options_(std::move(options)),
      memory_(program, ledger, options_.disk),
      collectives_(std::move(groups), options_.idle),
      link_(space_, options_.link_gb_per_s),
      disk_(options_.disk),
      runs_(program.segments.size(), 0) {
  require_reachable_host(program);
  // Messages of time-outs contain these names; communicators keep views of them.
  for (const Slot& s : program.slots) collective_names_.push_back(s.name);
}

std::span<const Operand> Executor::operands(const Event& event) const {
  return {program_.operands.data() + event.operands.first,
          static_cast<std::size_t>(event.operands.count)};
}

Bound Executor::bind(const Operand& operand) const {
  const std::int64_t size = dtype_bytes(program_.slots[operand.slot].dtype);
  return {memory_.data(operand.slot) + operand.offset * size, operand.elems,
          program_.slots[operand.slot].dtype, operand.reads && operand.writes};
}

Bound Executor::slot(int slot) const {
  return {memory_.data(slot), program_.slots[slot].elems, program_.slots[slot].dtype, false};
}

int Executor::find_slot(std::string_view name) const {
  for (std::size_t s = 0; s < program_.slots.size(); ++s)
    if (program_.slots[s].name == name && memory_.alive(static_cast<int>(s)))
      return static_cast<int>(s);
  return -1;
}

void Executor::poll(bool emulating) {
  if (emulating) return collectives_.progress();
  ScopedTimer timer(times_.exposed);
  collectives_.progress();
}

void Executor::run(int index, const StepValues& values) {
  const Segment& segment = program_.segments[index];
  ++runs_[index];
  in_flight_.assign(segment.events.size(), {});
  std::optional<Phase> phase;
  ProfilingRegion region;
  for (int i = 0; i < static_cast<int>(segment.events.size()); ++i) {
    if (phase != segment.events[i].phase) {
      phase = segment.events[i].phase;
      if (enters_phase_) enters_phase_(*phase);
      region.begin([&] { return region_of(*phase); });
    }
    const TracedScope traced(trace_, memory_, index, i, times_.exposed, waited_for_copies_ns_);
    ScopedTimer timer(times_.*phase_times[segment.events[i].phase]);
    run_event(segment, i, values);
  }
  if (segment.kind == SegmentKind::boundary) {
    ScopedTimer timer(times_.step);  // waiting for the flag is part of the step's end
    look_for_overflow(segment);
  }
  if (segment.events.empty()) return;
  const TracedScope traced(trace_, memory_, index, -1, times_.exposed, waited_for_copies_ns_);
  ScopedTimer timer(times_.*phase_times[segment.events.back().phase]);
  for (int i = 0; i < static_cast<int>(segment.events.size()); ++i) wait_for(segment, i);
  disk_.finish();
  collectives_.finish();
  finish_copies();
}

void Executor::look_for_overflow(const Segment& segment) {
  overflowed_ = false;
  // The last event that writes the flag: a reduction over ranks, or the kernel if all have the
  // same.
  const Event* flags = nullptr;
  bool reduced = false;
  for (const Event& event : segment.events) {
    const bool reduces = event.op == Op::all_reduce && event.dtype == Dtype::uint8;
    if (event.kernel != Kernel::overflow && !reduces) continue;
    flags = &event;
    reduced = reduces;
  }
  if (flags == nullptr) return;
  for (int i = 0; i < static_cast<int>(segment.events.size()); ++i) wait_for(segment, i);
  await_compute();
  overflowed_ = read_back(space_, bind(operands(*flags)[reduced ? 1 : 0]).as<std::uint8_t>()) != 0;
}

void Executor::compute(const Event& event, const StepValues& values) {
  const ProfilingRegion region([&] { return region_of(program_, event); });
  bound_.clear();
  for (const Operand& o : operands(event)) bound_.push_back(bind(o));
  if (host_waits_in(event.kernel)) await_compute();
  if (options_.fault == Fault::nan && event.kernel == Kernel::grad_norm && values.step == 1) {
    constexpr std::uint64_t ones = ~std::uint64_t{0};
    copy_to_device(space_, bound_[1].data, &ones,
                   static_cast<std::size_t>(dtype_bytes(bound_[1].dtype)));
  }
  model_.run(program_, event, bound_, values);
  if (options_.fault == Fault::overrun) overrun(event);
  if (event.kernel != Kernel::clip) return;
  norm_ = read_back(space_, bound_[0].as<double>());
}

double Executor::loss() const {
  const int loss = find_slot("loss");
  return loss < 0 ? std::numeric_limits<double>::quiet_NaN()
                  : read_back(space_, slot(loss).as<double>());
}

void Executor::run_event(const Segment& segment, int index, const StepValues& values) {
  const Event& event = segment.events[index];
  // On a stream, an operation comes after the kernels that were launched before it, so the host
  // waits for no kernel.
  const bool by_event = is_collective(event.op) ? collectives_.on_stream(event.group)
                                                : event.op == Op::copy && link_.on_lane();
  for (int a = 0; a < event.after.count; ++a) {
    const std::int32_t before = program_.edges[event.after.first + a];
    if (!by_event || segment.events[before].lane != Lane::compute) wait_for(segment, before);
  }
  if (watch_) watch_->writes(event);
  switch (event.op) {
    case Op::acquire: return acquire(event);
    case Op::release: return release(event);
    case Op::copy: return start_copy(event, in_flight_[index]);
    case Op::compute: return compute(event, values);
    default: return start_collective(event, in_flight_[index]);
  }
}

void Executor::acquire(const Event& event) {
  memory_.acquire(event.slot);
  if (watch_ && !memory_.is_file(event.slot))
    watch_->acquired(event.slot, memory_.room(event.slot));
}

void Executor::release(const Event& event) {
  if (watch_) watch_->released(event.slot);
  if (options_.fault == Fault::leak && !leaked_ && event.category != Category::workspace) {
    leaked_ = true;
    return memory_.leak(event.slot);
  }
  if (program_.memory_mode == MemoryMode::strict) await_compute();  // kernels may still use it
  memory_.release(event.slot);
}

SlotUse Executor::end_watch() {
  SlotUse use = watch_ ? watch_->finish() : SlotUse{};
  watch_.reset();
  return use;
}

// Fault::overrun: writes one byte too many wherever that harms no other slot.
void Executor::overrun(const Event& event) {
  constexpr std::byte any{1};
  for (const Operand& o : operands(event)) {
    const auto room = memory_.room(o.slot);
    const auto bytes = static_cast<std::size_t>(alloc_bytes(program_.slots[o.slot]));
    if (o.writes && bytes > 0 && bytes < room.size())
      copy_to_device(space_, room.data() + bytes, &any, sizeof any);
  }
}

// Learned routing has decided the parts of `c` since the plan was made.
void Executor::take_routed_parts(const Event& event, Collective& c) {
  const Collective planned = c;
  c.parts = model_.routed_parts(event.module, event.routed).data();
  routed_.add(planned, c, program_.size_of(event.group));
}

void Executor::start_collective(const Event& event, InFlight& started) {
  const auto ops = operands(event);
  Collective c;
  c.op = event.op;
  c.dtype = event.dtype;
  c.reduction = event.reduction;
  c.root = event.root;
  c.elems = program_.array_elems(event);
  if (event.parts.count > 0) c.parts = program_.part_counts.data() + event.parts.first;
  if (event.routed != Routed::no) take_routed_parts(event, c);
  if (ops.size() >= 2) {
    c.send = bind(ops[0]).data;
    c.recv = bind(ops[1]).data;
    // A gather is named after its destination, the one buffer that contains all shards.
    c.name = collective_names_[ops[event.op == Op::all_gather ? 1 : 0].slot];
  }
  if (ops.size() >= 3) {
    c.scratch = bind(ops[2]).data;
    c.scratch_bytes = ops[2].elems * dtype_bytes(program_.slots[ops[2].slot].dtype);
  }
  ScopedTimer timer(times_.exposed);
  started.number = collectives_.start(event.group, c);
}

// Called before the host waits for the compute stream. The stream may wait for collectives in its
// turn, which advance, and which the watchdog checks, only when they are polled.
void Executor::await_compute() {
  if (!collectives_.any_on_stream()) return;
  while (!stream_is_idle(native_stream(space_))) {
    collectives_.progress();
    collectives_.pause();
  }
}

void Executor::wait_for(const Segment& segment, std::int32_t index) {
  const Event& event = segment.events[index];
  InFlight& started = in_flight_[index];
  if (is_collective(event.op)) {
    if (started.number == 0) return;
    const ProfilingRegion region([&] { return region_of(program_, event); });
    ScopedTimer timer(times_.exposed);
    collectives_.hold(event.group, started.number);
    started.number = 0;
  } else if (event.op == Op::copy) {
    hold_copy(event, started);
  } else if (event.lane == Lane::compute) {
    await_compute();
    fence(space_, "shardmark::order_lanes");
  }
}

}  // namespace shardmark
