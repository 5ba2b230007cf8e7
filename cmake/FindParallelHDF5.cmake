# SPDX-License-Identifier: Apache-2.0
# Finds an HDF5 that was built for parallel I/O with the MPI that was found before (Debian has one
# HDF5 per MPI, side by side). Defines ParallelHDF5::hdf5, ParallelHDF5_FOUND, ParallelHDF5_VERSION.
set(hdf5_folders "")
foreach(mpi mpich openmpi)
  if("${MPI_CXX_LIBRARIES};${MPI_CXX_LIBRARY_VERSION_STRING}" MATCHES "${mpi}")
    list(APPEND hdf5_folders "hdf5/${mpi}" "${mpi}")
  endif()
endforeach()
# Intel MPI and others of MPICH's family use the HDF5 of MPICH, whose ABI they have.
if(NOT hdf5_folders)
  list(APPEND hdf5_folders "hdf5/mpich" "mpich")
endif()
find_path(ParallelHDF5_INCLUDE_DIR hdf5.h HINTS ENV HDF5_ROOT
          PATH_SUFFIXES ${hdf5_folders} include)
find_library(ParallelHDF5_LIBRARY hdf5 HINTS ENV HDF5_ROOT PATH_SUFFIXES ${hdf5_folders} lib lib64)
mark_as_advanced(ParallelHDF5_INCLUDE_DIR ParallelHDF5_LIBRARY)

set(ParallelHDF5_VERSION "")
set(ParallelHDF5_PARALLEL OFF)
if(ParallelHDF5_INCLUDE_DIR AND EXISTS "${ParallelHDF5_INCLUDE_DIR}/H5pubconf.h")
  file(STRINGS "${ParallelHDF5_INCLUDE_DIR}/H5pubconf.h" hdf5_config
       REGEX "^#define H5_(VERSION|HAVE_PARALLEL)( |$)")
  foreach(line IN LISTS hdf5_config)
    if(line MATCHES "H5_VERSION \"([0-9.]+)")
      set(ParallelHDF5_VERSION "${CMAKE_MATCH_1}")
    elseif(line MATCHES "H5_HAVE_PARALLEL")
      set(ParallelHDF5_PARALLEL ON)
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  ParallelHDF5
  REQUIRED_VARS ParallelHDF5_LIBRARY ParallelHDF5_INCLUDE_DIR ParallelHDF5_PARALLEL
  VERSION_VAR ParallelHDF5_VERSION)

if(ParallelHDF5_FOUND AND NOT TARGET ParallelHDF5::hdf5)
  add_library(ParallelHDF5::hdf5 UNKNOWN IMPORTED)
  set_target_properties(ParallelHDF5::hdf5 PROPERTIES
                        IMPORTED_LOCATION "${ParallelHDF5_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${ParallelHDF5_INCLUDE_DIR}")
endif()
