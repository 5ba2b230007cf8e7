// SPDX-License-Identifier: Apache-2.0
// Calls that a program makes on files, made to fail and written down. Linked into a test, or loaded
// before a program (LD_PRELOAD), which then takes its orders from the environment:
//     SHARDMARK_TEST_IO="under=/tmp/x call=pwrite nth=3 error=5 lasting=1 rank=0 log=/tmp/log"
// `under` comes first: only files below that folder are looked at.
#pragma once

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

namespace shardmark::test {

/// The n-th `call` on a file below `under` fails with `error`, and with `lasting` all that follow.
/// open, write, pwrite, ftruncate, fallocate, fsync, close, rename (renameat2 too), pread, or `any`
/// of them. With a `signal` the process sends it to itself before that call instead.
struct IoFault {
  std::string under, call;
  std::int64_t nth = 1;
  int error = 0;
  bool lasting = false;
  int signal = 0;
};

/// The name under which programs read their orders, and a fault as such an order, of one rank.
inline constexpr const char* io_fault_variable = "SHARDMARK_TEST_IO";
std::string io_fault_order(const IoFault& fault, int rank, const std::string& log = "");

/// Of this process, from now on. How often a call has failed since.
void set_io_fault(const IoFault& fault);
std::int64_t io_faults();
void clear_io_fault();

/// A call that was made, as the log has it: one a line, times from one clock for all processes.
struct IoCall {
  std::int64_t at_ns = 0;
  int rank = 0;
  std::string call, path, to;  // `to`: of a rename
};
std::vector<IoCall> read_io_log(const std::string& path);

/// Whether a message shows internals of HDF5, such as H5Fclose. The random names of the tests'
/// folders may contain "H5" too, and are left out.
inline bool names_hdf5(const std::string& message) {
  static const std::regex folders("shardmark-(cli-|shared-)?[A-Za-z0-9]{6}");
  const std::string said = std::regex_replace(message, folders, "");
  return said.find("H5") != std::string::npos || said.find("HDF5") != std::string::npos;
}

}  // namespace shardmark::test
