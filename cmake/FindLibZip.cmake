# SPDX-License-Identifier: Apache-2.0
# Finds libzip by its header and library, because Debian's CMake config names programs that another
# package contains. Defines LibZip::zip, LibZip_FOUND.
find_path(LibZip_INCLUDE_DIR zip.h)
find_library(LibZip_LIBRARY zip)
mark_as_advanced(LibZip_INCLUDE_DIR LibZip_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibZip REQUIRED_VARS LibZip_LIBRARY LibZip_INCLUDE_DIR)

if(LibZip_FOUND AND NOT TARGET LibZip::zip)
  add_library(LibZip::zip UNKNOWN IMPORTED)
  set_target_properties(LibZip::zip PROPERTIES
                        IMPORTED_LOCATION "${LibZip_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${LibZip_INCLUDE_DIR}")
endif()
