// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <Kokkos_Core.hpp>

#include <core/clock.hpp>
#include <miniapp/tools/calibrate/kernel_listener.hpp>

namespace shardmark {
namespace {

constexpr char prefix[] = "shardmark::";

Heard* heard = nullptr;  // by the listener that exists; the callbacks have no other way to it

void on_begin(const char* label, const std::uint32_t, std::uint64_t*) {
  if (!heard->on || heard->open++ > 0) return;
  const bool ours = std::strncmp(label, prefix, sizeof prefix - 1) == 0;
  heard->kernels.push_back({ours ? label + sizeof prefix - 1 : label, 0});
  heard->start_ns = monotonic_ns();
}
void on_end(const std::uint64_t) {
  if (!heard->on || --heard->open > 0) return;
  heard->kernels.back().ns = monotonic_ns() - heard->start_ns;
}

void listen(bool on) {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on ? on_begin : nullptr);
  tools::set_end_parallel_for_callback(on ? on_end : nullptr);
  tools::set_begin_parallel_reduce_callback(on ? on_begin : nullptr);
  tools::set_end_parallel_reduce_callback(on ? on_end : nullptr);
}

}  // namespace

KernelListener::KernelListener() {
  heard = &heard_;
  listen(true);
}
KernelListener::~KernelListener() {
  listen(false);
  heard = nullptr;
}
void KernelListener::begin() {
  heard_.kernels.clear();
  heard_.open = 0;
  heard_.on = true;
}
std::vector<HeardKernel>& KernelListener::end() {
  heard_.on = false;
  return heard_.kernels;
}

}  // namespace shardmark
