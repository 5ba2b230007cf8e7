# SPDX-License-Identifier: Apache-2.0
# Builds a pinned Kokkos release together with ShardMark.
# -DFETCHCONTENT_SOURCE_DIR_KOKKOS=<checkout> builds that checkout instead and needs no network.
# Kokkos' own options (-DKokkos_ENABLE_CUDA=ON …) apply as usual.
include(FetchContent)
set(SHARDMARK_KOKKOS_RELEASE 4.7.01)
set(kokkos_sha256 404cf33e76159e83b8b4ad5d86f6899d442b5da4624820ab457412116cdcd201)

# This is a function, so that the variables for Kokkos' own build stay local.
function(shardmark_fetch_kokkos)
  set(CMAKE_CXX_STANDARD 20)
  # GCC 12.2 to 12.4 miscompile the mdspan-based View of some releases; the older View is always
  # correct.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(Kokkos_ENABLE_IMPL_VIEW_LEGACY ON CACHE BOOL "Kokkos' View without mdspan")
  endif()
  FetchContent_Declare(
    Kokkos
    URL https://github.com/kokkos/kokkos/releases/download/${SHARDMARK_KOKKOS_RELEASE}/kokkos-${SHARDMARK_KOKKOS_RELEASE}.tar.gz
    URL_HASH SHA256=${kokkos_sha256}
    DOWNLOAD_EXTRACT_TIMESTAMP OFF
    SYSTEM)
  FetchContent_MakeAvailable(Kokkos)
endfunction()
shardmark_fetch_kokkos()
set(Kokkos_VERSION "${SHARDMARK_KOKKOS_RELEASE}")
set(SHARDMARK_KOKKOS_FROM "fetched")
if(FETCHCONTENT_SOURCE_DIR_KOKKOS)
  set(Kokkos_VERSION "of a checkout")
  set(SHARDMARK_KOKKOS_FROM "${FETCHCONTENT_SOURCE_DIR_KOKKOS}")
endif()
