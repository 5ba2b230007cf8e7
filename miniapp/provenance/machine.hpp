// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the processor that a rank runs on.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// The files of the kernel; tests give their own.
struct MachineFiles {
  std::string cpuinfo = "/proc/cpuinfo";
  std::string nodes = "/sys/devices/system/node";  // with node<i>/cpulist
};

/// "Intel(R) Xeon(R) …". On ARM, where the kernel names no model, "Arm Neoverse-V2" by implementer
/// and part, or these numbers if they are unknown; else the architecture ("riscv64").
std::string processor_model(const MachineFiles& files = {});

/// The NUMA nodes that have one of `cores` ("0-3,8"), in the same notation; empty if the kernel
/// does not say.
std::string numa_nodes(std::string_view cores, const MachineFiles& files = {});

/// "Linux 6.1.0-25-amd64 x86_64"
std::string operating_system();

}  // namespace shardmark
