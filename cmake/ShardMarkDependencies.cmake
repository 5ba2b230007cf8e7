# SPDX-License-Identifier: Apache-2.0
# Finds the libraries that ShardMark is built on, or says which Debian package is missing.
# Afterwards these targets exist:
#   Kokkos::kokkos  MPI::MPI_CXX  DNNL::dnnl  nlohmann_json::nlohmann_json  CLI11::CLI11  fmt::fmt
#   xxHash::xxhash  LibZip::zip  ParallelHDF5::hdf5
# and, with SHARDMARK_BUILD_TESTS, GTest::gtest. SHARDMARK_YAML says whether yaml-cpp was found. Nothing is downloaded without
# SHARDMARK_FETCH_KOKKOS. With SHARDMARK_PLANNER, Kokkos, MPI, oneDNN and HDF5 are not looked for.

# shardmark_require(<what> <found> <Debian package>): ends with an error message if <found> is
# false.
function(shardmark_require what found package)
  if(NOT ${found})
    message(FATAL_ERROR "${what} was not found. On Debian or Ubuntu it is in the package ${package}; "
                        "`ci/setup` installs everything that is missing. Elsewhere, point "
                        "CMAKE_PREFIX_PATH at your own installation.")
  endif()
endfunction()

if(NOT SHARDMARK_PLANNER)
  include(ShardMarkKokkos)
  set(MPI_CXX_SKIP_MPICXX ON)  # ShardMark uses only the C bindings
  find_package(MPI QUIET COMPONENTS CXX)
  shardmark_require("MPI" MPI_CXX_FOUND "libmpich-dev (and mpich, for mpiexec)")

  if(NOT "${Kokkos_DEVICES};" MATCHES "(CUDA|HIP);" AND NOT Kokkos_ENABLE_CUDA AND NOT Kokkos_ENABLE_HIP)
    # GPU builds use cuBLASLt or hipBLASLt instead.
    find_package(DNNL 2.0 MODULE QUIET)
    shardmark_require("oneDNN (2.0 or newer)" DNNL_FOUND "libdnnl-dev")
  endif()
endif()
find_package(nlohmann_json 3.9 CONFIG QUIET)
shardmark_require("nlohmann-json (3.9 or newer)" nlohmann_json_FOUND "nlohmann-json3-dev")
find_package(CLI11 CONFIG QUIET)
shardmark_require("CLI11" CLI11_FOUND "libcli11-dev")
find_package(fmt CONFIG QUIET)
shardmark_require("fmt" fmt_FOUND "libfmt-dev")
find_package(xxHash QUIET)
shardmark_require("xxHash" xxHash_FOUND "libxxhash-dev")
find_package(LibZip QUIET)
shardmark_require("libzip" LibZip_FOUND "libzip-dev")
if(NOT SHARDMARK_PLANNER)
  find_package(ParallelHDF5 1.10 MODULE QUIET)
  shardmark_require("A parallel HDF5 (1.10 or newer) of this MPI" ParallelHDF5_FOUND "libhdf5-mpich-dev")
endif()
find_package(yaml-cpp 0.6 CONFIG QUIET)  # optional: Accelerate's configs in YAML
set(SHARDMARK_YAML ${yaml-cpp_FOUND})
if(TARGET yaml-cpp AND NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)  # its name before 0.8
endif()
if(SHARDMARK_BUILD_TESTS)
  find_package(GTest QUIET)
  shardmark_require("GoogleTest" GTest_FOUND "libgtest-dev")
  shardmark_require("mpiexec" MPIEXEC_EXECUTABLE "mpich")
endif()
