// SPDX-License-Identifier: Apache-2.0
// The least program that needs Kokkos' headers and its library.
#include <Kokkos_Core.hpp>

int main(int argc, char* argv[]) {
  Kokkos::initialize(argc, argv);
  Kokkos::finalize();
}
