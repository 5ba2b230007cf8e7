// SPDX-License-Identifier: Apache-2.0
// Restricts a run to the tests of some source files, so that one executable can serve several tests
// of CTest and nobody has to repeat the names of the suites in CMake.
#pragma once

namespace shardmark::test {

/// Looks for `--files=<file>,<file>…` in the arguments (paths relative to the root of the sources),
/// and adds all tests of other files to what GoogleTest's filter leaves out. To be called after
/// InitGoogleTest(), which registers parameterised tests. Without that argument all tests stay.
void select_files(int argc, char* argv[]);

}  // namespace shardmark::test
