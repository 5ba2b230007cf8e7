// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <Kokkos_Core.hpp>

#include <core/clock.hpp>
#include <core/kokkos_shim.hpp>
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
  heard->kernels.back().ns = heard->launch.in_row(monotonic_ns() - heard->start_ns);
}

void listen(bool on) {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on ? on_begin : nullptr);
  tools::set_end_parallel_for_callback(on ? on_end : nullptr);
  tools::set_begin_parallel_reduce_callback(on ? on_begin : nullptr);
  tools::set_end_parallel_reduce_callback(on ? on_end : nullptr);
}

void launch_empty_kernels(int count) {
  for (int i = 0; i < count; ++i)
    Kokkos::parallel_for("shardmark::empty", Kokkos::RangePolicy<Space>(0, 1),
                         KOKKOS_LAMBDA(int){});
}

// The mean of many empty kernels; nobody listens.
std::int64_t empty_in_row_ns() {
  constexpr int count = 1000;
  launch_empty_kernels(count);  // the first ones load code
  Kokkos::fence();
  const std::int64_t start_ns = monotonic_ns();
  launch_empty_kernels(count);
  Kokkos::fence();
  return (monotonic_ns() - start_ns) / count;
}

// The median of empty kernels that the host waits for; `listener` listens.
std::int64_t empty_alone_ns(KernelListener& listener) {
  constexpr int count = 101;
  listener.begin();
  launch_empty_kernels(count);
  std::vector<HeardKernel>& kernels = listener.end();
  const auto middle = kernels.begin() + count / 2;
  std::nth_element(kernels.begin(), middle, kernels.end(),
                   [](const HeardKernel& a, const HeardKernel& b) { return a.ns < b.ns; });
  return middle->ns;
}

}  // namespace

KernelListener::KernelListener() {
  static const std::int64_t in_row_ns = device_is_host ? 0 : empty_in_row_ns();
  heard = &heard_;
  listen(true);
  static const std::int64_t alone_ns = device_is_host ? 0 : empty_alone_ns(*this);
  heard_.launch = {alone_ns, in_row_ns};
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
