// SPDX-License-Identifier: Apache-2.0
// The smallest program that needs both the headers and the library of Kokkos.
#include <Kokkos_Core.hpp>

int main(int argc, char* argv[]) {
  Kokkos::initialize(argc, argv);
  Kokkos::finalize();
}
