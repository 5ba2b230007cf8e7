// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, loaded while the program runs, so that a build needs neither its
// header nor a GPU.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

/// The library, from construction to destruction.
class Nvml {
 public:
  /// Throws std::runtime_error if the library or one of its functions is not there, or if the
  /// driver does not answer.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned devices() const { return static_cast<unsigned>(handles_.size()); }
  /// Joules since the driver was loaded. Throws std::runtime_error, for example for a GPU that is
  /// older than Volta.
  double joules(unsigned device) const;

 private:
  using Energy = int (*)(void*, unsigned long long*);
  using Call = int (*)();
  void* library_ = nullptr;
  Energy energy_ = nullptr;
  Call shutdown_ = nullptr;
  std::vector<void*> handles_;
};

}  // namespace shardmark
