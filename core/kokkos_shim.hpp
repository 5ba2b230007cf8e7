// SPDX-License-Identifier: Apache-2.0
// The one place that spells what differs between Kokkos 3.4 (Debian 12) and 5.x.
#pragma once

#include <Kokkos_Core.hpp>

namespace shardmark {

/// The execution space of all kernels. Kernels are launched on an instance of it.
using Space = Kokkos::DefaultExecutionSpace;

/// Whether the host reads and writes the device's memory: on a CPU-only build they are one.
inline constexpr bool device_is_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible;

/// The host's memory, pinned where there is a device that copies from and to it.
#if defined(KOKKOS_ENABLE_CUDA)
using PinnedMemory = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using PinnedMemory = Kokkos::HIPHostPinnedSpace;
#else
using PinnedMemory = Kokkos::HostSpace;
#endif

/// The stream that `space` launches on, a cudaStream_t or hipStream_t; null on the host.
#if defined(KOKKOS_ENABLE_CUDA)
inline void* native_stream(const Space& space) {
  return space.cuda_stream();
}
#elif defined(KOKKOS_ENABLE_HIP)
inline void* native_stream(const Space& space) {
  return space.hip_stream();
}
#else
inline void* native_stream(const Space&) {
  return nullptr;
}
#endif

/// The number of threads that a kernel on `space` can have. Kokkos 3 makes this a property of the
/// type, later releases one of the instance.
inline int concurrency(const Space& space) {
  return space.concurrency();  // NOLINT(readability-static-accessed-through-instance): of Kokkos 3
}

/// Starts Kokkos, on device number `device` of the node if that is 0 or above. Kokkos' own warnings
/// about the placement of threads are switched off from Kokkos 3.7 on, because every rank would
/// print them and a run's report has warnings of its own.
inline void initialize_kokkos([[maybe_unused]] int device) {
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  settings.set_disable_warnings(true);
  if (device >= 0) settings.set_device_id(device);
  Kokkos::initialize(settings);
#else
  int argc = 0;
  char* none = nullptr;
  Kokkos::initialize(argc, &none);
#endif
}

/// Waits for what was launched on `space`; `reason` says why, where Kokkos can pass it on (3.5 on).
inline void fence(const Space& space, [[maybe_unused]] const char* reason) {
#if KOKKOS_VERSION >= 30500
  space.fence(reason);
#else
  space.fence();
#endif
}

}  // namespace shardmark
