# SPDX-License-Identifier: Apache-2.0
# What the Python wheel of the planner contains. pip puts the folder of scripts on PATH, and that of
# data at the root of the environment. Libraries that every system has are not copied.
set(libraries "${SKBUILD_DATA_DIR}/lib/shardmark")
set_target_properties(shardmark PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/shardmark")
install(TARGETS shardmark RUNTIME_DEPENDENCY_SET shardmark_needs
        RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
install(RUNTIME_DEPENDENCY_SET shardmark_needs
        PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc[+][+]|ld-linux.*)[.]so"
        POST_EXCLUDE_REGEXES "/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc[+][+]|ld-linux[^/]*)[.]so"
        LIBRARY DESTINATION "${libraries}")
install(DIRECTORY inputs DESTINATION "${SKBUILD_DATA_DIR}/share/shardmark")
