// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <dlfcn.h>
#include <fmt/core.h>

#include <miniapp/energy/nvml.hpp>

namespace shardmark {
namespace {

// Returns the function `name` of the library. Throws std::runtime_error if the library does not
// have it.
template<class Function>
Function function_of(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(fmt::format("NVML has no {}", name));
  return reinterpret_cast<Function>(found);
}

void require(int status, const char* name) {
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with {}", name, status));
}

}  // namespace

Nvml::Nvml(const std::string& library)
    : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw std::runtime_error(library + " is not there");
  try {
    const auto init = function_of<Call>(library_, "nvmlInit_v2");
    const auto count = function_of<int (*)(unsigned*)>(library_, "nvmlDeviceGetCount_v2");
    const auto handle =
        function_of<int (*)(unsigned, void**)>(library_, "nvmlDeviceGetHandleByIndex_v2");
    energy_ = function_of<Energy>(library_, "nvmlDeviceGetTotalEnergyConsumption");
    const auto shutdown = function_of<Call>(library_, "nvmlShutdown");
    require(init(), "nvmlInit_v2");
    shutdown_ = shutdown;
    unsigned devices = 0;
    require(count(&devices), "nvmlDeviceGetCount_v2");
    handles_.resize(devices);
    for (unsigned i = 0; i < devices; ++i)
      require(handle(i, &handles_[i]), "nvmlDeviceGetHandleByIndex_v2");
  } catch (...) {
    if (shutdown_ != nullptr) static_cast<void>(shutdown_());
    ::dlclose(library_);
    throw;
  }
}

Nvml::~Nvml() {
  static_cast<void>(shutdown_());
  ::dlclose(library_);
}

double Nvml::joules(unsigned device) const {
  unsigned long long millijoules = 0;
  require(energy_(handles_.at(device), &millijoules), "nvmlDeviceGetTotalEnergyConsumption");
  return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace shardmark
