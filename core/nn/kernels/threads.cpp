// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <dlfcn.h>

#include <core/nn/kernels/threads.hpp>

namespace shardmark {
namespace {

// oneDNN or Kokkos may have loaded an OpenMP runtime, which read the environment at that moment.
// Whichever runtime it is, its functions are looked up by name.
template<class Function>
Function* openmp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void default_to_one_thread() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  if (auto* set_threads = openmp<void(int)>("omp_set_num_threads")) set_threads(1);
}

int matmul_threads() {
  auto* threads = openmp<int()>("omp_get_max_threads");
  return threads != nullptr ? threads() : 1;
}

}  // namespace shardmark
