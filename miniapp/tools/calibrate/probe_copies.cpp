// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, and transfers of files, by size.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/disk_options.hpp>
#include <miniapp/execute/huge_pages.hpp>
#include <miniapp/execute/link_queue.hpp>
#include <miniapp/tools/calibrate/probe.hpp>

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
    if (i >= 0)
      times[static_cast<std::size_t>(i)] = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
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

}  // namespace shardmark
