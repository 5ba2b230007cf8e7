// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <dlfcn.h>

#include <core/nn/threads.hpp>

namespace shardmark {

void default_to_one_thread() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  // The OpenMP runtime, where there is one, is oneDNN's or Kokkos' and read the environment when it
  // was loaded; whichever it is, it is asked by name.
  using SetThreads = void (*)(int);
  void* found = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (found != nullptr) reinterpret_cast<SetThreads>(found)(1);
}

}  // namespace shardmark
