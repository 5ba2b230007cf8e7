// SPDX-License-Identifier: Apache-2.0
// Regions of Kokkos' profiling interface, so that any Kokkos tool shows a run by the names of its
// steps, phases and modules.
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

namespace shardmark {

/// A region of Kokkos Tools, which ends with its scope. Without a tool it does nothing.
/// Kokkos::Profiling::ScopedRegion does the same from Kokkos 4.1 on, but is given the name whether
/// a tool listens or not.
class ProfilingRegion {
 public:
  /// No region yet.
  ProfilingRegion() = default;
  /// `name()` returns the name, a std::string. It is called only if a tool listens.
  template<class Name>
  explicit ProfilingRegion(const Name& name) {
    begin(name);
  }
  ~ProfilingRegion() { end(); }
  ProfilingRegion(const ProfilingRegion&) = delete;
  ProfilingRegion& operator=(const ProfilingRegion&) = delete;

  /// Ends the region, if there is one, and begins another.
  template<class Name>
  void begin(const Name& name) {
    end();
    if (!tool_listens()) return;
    Kokkos::Profiling::pushRegion(name());
    open_ = true;
  }

  /// Whether a tool listened to regions when this was asked for the first time, after Kokkos was
  /// initialized: tools are loaded then. Our ledger listens to allocations only.
  static bool tool_listens() {
    static const bool listens = Kokkos::Tools::Experimental::get_callbacks().push_region != nullptr;
    return listens;
  }

 private:
  void end() {
    if (open_) Kokkos::Profiling::popRegion();
    open_ = false;
  }

  bool open_ = false;
};

}  // namespace shardmark
