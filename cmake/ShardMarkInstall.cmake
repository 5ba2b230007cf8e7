# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the program with its decks, documents, man page and completions, and no headers,
# since ShardMark is a program and not a library. The tree can be moved: the program finds its decks
# relative to itself (io/deck/shipped_decks.cpp). `cpack -G DEB` makes a Debian package of it, and
# `cpack -G TGZ` an archive.
include(GNUInstallDirs)
if(SKBUILD)  # a Python wheel (ci/kits/python): the program on PATH, its decks and libraries beside it
  include(ShardMarkWheel)
  return()
endif()
set(share "${CMAKE_INSTALL_DATADIR}/shardmark")
install(TARGETS shardmark RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY inputs DESTINATION "${share}")
install(FILES README.md LICENSE CHANGELOG.md CITATION.cff DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The program prints its man page and completions itself. It is not run where it cannot be, for
# example in a build for another processor.
if(NOT CMAKE_CROSSCOMPILING)
  set(texts "${PROJECT_BINARY_DIR}/texts")
  set(prints
    "man1/shardmark.1:--help-man" "bash/shardmark:--completion bash" "zsh/_shardmark:--completion zsh"
    "fish/shardmark.fish:--completion fish")
  foreach(pair IN LISTS prints)
    string(REGEX MATCH "^([^:]+):(.+)$" pair "${pair}")
    set(file "${texts}/${CMAKE_MATCH_1}")
    separate_arguments(arguments UNIX_COMMAND "${CMAKE_MATCH_2}")
    cmake_path(GET file PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(OUTPUT "${file}" COMMAND shardmark ${arguments} > "${file}"
                       DEPENDS shardmark COMMENT "" VERBATIM)
    list(APPEND text_files "${file}")
  endforeach()
  add_custom_target(shardmark_texts ALL DEPENDS ${text_files})
  install(FILES "${texts}/man1/shardmark.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES "${texts}/bash/shardmark" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${texts}/zsh/_shardmark" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  install(FILES "${texts}/fish/shardmark.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()

set(CPACK_PACKAGE_NAME shardmark)
set(CPACK_PACKAGE_VENDOR "The ShardMark developers")
set(CPACK_PACKAGE_CONTACT "The ShardMark developers <shardmark@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Trains a transformer under ZeRO stage 0, 1, 2 or 3 on any number of \
MPI ranks, predicts its memory to the byte and its collectives to the call, and proves both.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries that the program is linked with; mpiexec comes with MPICH's own package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "mpich")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
