// SPDX-License-Identifier: Apache-2.0
// Copies between host and device and transfers of files, by size, and kernels over parameters,
// gradients and states, on memory that no cache holds, as a step finds it.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/nn/optimizer/updates.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/disk_queue.hpp>
#include <miniapp/execute/link_queue.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/tools/calibrate/probe.hpp>
#include <miniapp/tools/calibrate/state_timer.hpp>

namespace shardmark {

namespace {

// The times of `body` in some repetitions, of the slowest rank; 0 on ranks that wait.
template<class Body>
std::vector<double> times_of(const Probe& probe, int repeats, Body body) {
  std::vector<double> times(static_cast<std::size_t>(repeats), 0.0);
  for (int i = -1; i < repeats; ++i) {
    probe.world.peers.barrier();
    const std::int64_t start_ns = monotonic_ns();
    if (probe.works()) body();
    if (i >= 0) times[i] = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  }
  probe.world.peers.max(times);
  return times;
}

void files(const Probe& probe, const std::string& folder, std::int64_t most, Machine& machine) {
  std::optional<SwapFile> file;
  PageBuffer memory(most);
  SwapFile::Bounce bounce;
  std::fill_n(memory.data(), most, std::byte{1});
  if (probe.works()) file.emplace(folder, most);
  const std::int64_t step = DiskOptions{}.step_bytes;
  for (std::int64_t bytes = 64 << 10; bytes <= most; bytes *= 8) {
    // A step transfers many pieces, one after another, and waits for all of them: slow ones count.
    const std::int64_t pieces = std::min<std::int64_t>(most / bytes, 8);
    const auto mean_of = [&](auto transfer) {
      const auto all = times_of(probe, probe.quick ? 2 : 4, [&] {
        for (std::int64_t at = 0; at < pieces * bytes; at += bytes)
          transfer(at, memory.data() + at);
      });
      return std::accumulate(all.begin(), all.end(), 0.0) /
             static_cast<double>(pieces * std::ssize(all));
    };
    add_point(machine.disk_write, static_cast<double>(bytes),
              mean_of([&](std::int64_t at, std::byte* from) {
                file->write(at, bytes, from, step, bounce);
              }));
    add_point(
        machine.disk_read, static_cast<double>(bytes),
        mean_of([&](std::int64_t at, std::byte* to) { file->read(at, bytes, to, step, bounce); }));
  }
}

}  // namespace

void probe_copies(const Probe& probe) {
  probe.progress("copies between host and device");
  const std::int64_t arena = std::int64_t{probe.quick ? 64 : 256} << 20;
  Buffer device(Tier::device, arena, "shardmark::device::staging::calibrate");
  Buffer host(Tier::host, arena, "shardmark::host::staging::calibrate");
  for (Buffer* b : {&device, &host}) prefer_huge_pages(b->tier(), b->data<std::byte>(), arena);
  std::fill_n(host.data<std::byte>(), arena, std::byte{1});  // zeros are faster, see ColdMemory
  LinkQueue link(Space(), {});
  std::int64_t at = 0;
  for (const Direction d : {Direction::host_to_device, Direction::device_to_host})
    for (std::int64_t bytes = 4096; bytes <= arena; bytes *= 4)
      probe.samples.add(d, bytes, times_of(probe, bytes > (8 << 20) ? 3 : 9, [&] {
                          if (at + bytes > arena) at = 0;
                          std::byte *on_device = device.data<std::byte>() + at,
                                    *on_host = host.data<std::byte>() + at;
                          const bool up = d == Direction::host_to_device;
                          link.start(d, bytes, up ? on_device : on_host, up ? on_host : on_device);
                          at += bytes;
                        }));
}

void probe_disk(const Probe& probe, const std::string& folder, Machine& machine) {
  probe.progress("the disk of " + folder);
  probe.world.peers.agree(
      [&] { static_cast<void>(free_disk_bytes(folder)); });  // says what is wrong with the folder
  files(probe, folder, std::int64_t{probe.quick ? 32 : 128} << 20, machine);
}

StateTimer::StateTimer(const Probe& probe, std::int64_t most_elems)
    : probe_(probe),
      most_elems_(most_elems),
      matmul_(std::int64_t{1} << 20),
      context_{Space(), matmul_} {
  if (!probe.works()) return;
  words_.emplace(context_, Dtype::fp32, words_bytes);
  // The operands of `rearrange` take 240 MiB of 16-bit elements and must not overlap.
  halves_.emplace(context_, Dtype::bf16, words_bytes / 4 * 3);
  bytes_.emplace(context_, Dtype::bf16, words_bytes / 4);
  one_.emplace(Tier::device, 8, "shardmark::device::staging::calibrate");
  const Stored ones = take(Dtype::fp32, 1);
  init_param(context_, ones, 1, 0, 0, Init::ones, 1, 0);
  convert(context_, 1, {Dtype::fp64, one_->data<double>()}, ones);
}

void* StateTimer::take(std::size_t elem_bytes, std::int64_t elems) {
  ColdMemory& memory = elem_bytes == 1 ? *bytes_ : elem_bytes == 2 ? *halves_ : *words_;
  return memory.take(elems * static_cast<std::int64_t>(elem_bytes));
}

namespace {

double size(Dtype d) {
  return static_cast<double>(dtype_bytes(d));
}

void one_type(StateTimer& timer, Dtype d) {
  timer.time("divide", d, d, size(d),
             [&](std::int64_t n) { divide(timer.context(), n, timer.take(d, n), 2.0); });
  timer.time("clip_gradient", d, d, size(d), [&](std::int64_t n) {
    clip_gradient(timer.context(), n, timer.take(d, n), timer.one());
  });
  timer.time("flag_not_finite", d, d, size(d), [&](std::int64_t n) {
    // The flag is cleared by a kernel of its own, which is not part of the search.
    flag_not_finite(timer.context(), n, timer.take(d, n), timer.take_as<std::uint8_t>(1), false);
  });
  timer.time("sum_squares", d, d, size(d), [&](std::int64_t n) {
    sum_squares(timer.context(), n, timer.take(d, n), timer.take_as<double>(1), true);
  });
  const int rows = 2;
  timer.time("interleave", d, d, 2 * size(d), [&](std::int64_t n) {
    interleave(timer.context(), n, rows, n, timer.take(d, rows * n), timer.take(d, n));
  });
  timer.time("rearrange", d, d, 2 * size(d), [&](std::int64_t n) {
    rearrange(timer.context(), n, rows, n, timer.take(d, n), timer.take(d, rows * n));
  });
  timer.time("state_hash", d, d, size(d), [&](std::int64_t n) {
    static_cast<void>(state_hash(timer.context(), timer.take(d, n), n, 0));
  });
}

// Updates `master` with moments that no cache holds.
void adamw(StateTimer& timer, std::int64_t n, Stored master, Dtype grad,
           std::optional<Stored> rounded = {}) {
  const auto moment = [&] { return timer.take(Dtype::fp32, n).as<float>(); };
  adamw_update(timer.context(), n, master.as<float>(), timer.take(grad, n), moment(), moment(), {},
               timer.one(), rounded);
}

// An update writes the master, and if `param` is given, it also writes the parameters in this type.
void update(StateTimer& timer, std::optional<Dtype> param, Dtype grad) {
  timer.time(param ? "adamw_update_rounding" : "adamw_update", param.value_or(Dtype::fp32), grad,
             12 + size(grad) + (param ? size(*param) : 0), [&](std::int64_t n) {
               std::optional<Stored> rounded;
               if (param) rounded.emplace(timer.take(*param, n));
               adamw(timer, n, timer.take(Dtype::fp32, n), grad, rounded);
             });
}

// Parameters in fp32, which are copied from the master after the update.
void copies_after_update(StateTimer& timer) {
  constexpr Dtype fp32 = Dtype::fp32;
  Stored master{fp32, nullptr};
  timer.time_after_update(
      {.kernel = "convert", .dtype = fp32, .source = fp32, .updated = true},
      [&](std::int64_t n) {
        master = timer.take(fp32, n);
        adamw(timer, n, master, fp32);
      },
      [&](std::int64_t at, std::int64_t n) {
        convert(timer.context(), n, timer.take(fp32, n), master.at(at));
      });
}

}  // namespace

void time_two_types(StateTimer& timer, Dtype to, Dtype from) {
  timer.time("convert", to, from, size(to) + size(from), [&](std::int64_t n) {
    convert(timer.context(), n, timer.take(to, n), timer.take(from, n));
  });
  timer.time("accumulate", to, from, size(to) + size(from), [&](std::int64_t n) {
    accumulate(timer.context(), n, timer.take(to, n), timer.take(from, n));
  });
}

void probe_states(const Probe& probe, StateTimer& timer) {
  probe.progress("kernels over states");
  constexpr Dtype fp32 = Dtype::fp32, bf16 = Dtype::bf16;
  timer.time("clear", Dtype::uint8, Dtype::uint8, 1,
             [&](std::int64_t n) { clear(timer.context(), n, timer.take_as<std::uint8_t>(n)); });
  for (const Dtype d : {fp32, bf16}) one_type(timer, d);
  for (const Dtype to : {fp32, bf16})
    for (const Dtype from : {fp32, bf16}) time_two_types(timer, to, from);
  constexpr std::optional<Dtype> params[] = {std::nullopt, fp32, bf16};
  for (const Dtype grad : {fp32, bf16})
    for (const auto param : params) update(timer, param, grad);
  copies_after_update(timer);
}

}  // namespace shardmark
