// SPDX-License-Identifier: Apache-2.0
// What all probes of a calibration share: the ranks, how many of them are busy, where samples go.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <comm/idle.hpp>
#include <comm/shm/core_distance.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/price/machine.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/tools/calibrate/samples.hpp>
#include <miniapp/tools/calibrate/smoothing.hpp>

namespace shardmark {

class StateTimer;

struct Probe {
  const World& world;
  bool quick = false;
  int busy_ranks = 1;  // all ranks of each node, or one of them
  Samples& samples;
  CoreDistance& cores;                                    // of the ranks of this node
  std::function<void(const std::string& what)> progress;  // called before each part
  /// Collective. Whether models that were measured before are left out, so that it ends in time.
  std::function<bool()> out_of_time = [] { return false; };

  /// Whether this rank works. The others wait meanwhile. All nodes work at once, as in a run: they
  /// may share a disk, and hosts on one machine also its memory.
  bool works() const { return busy_ranks > 1 || world.node.local_rank == 0; }
  /// Collective over all ranks if several of a node work. In a run a collective precedes the
  /// boundary of a step, so all ranks are there at once and share the memory's bandwidth. Ranks
  /// that drift apart would measure it while others compute from their caches.
  void meet() const {
    if (busy_ranks > 1) world.peers.barrier();
  }
  /// Collective over all ranks if several of a node work, and otherwise `mine`. Returns the times
  /// that each of them measured, rank by rank: a run's ranks are not all as fast as the first one.
  std::vector<double> times_of_all(const std::vector<double>& mine) const {
    return busy_ranks > 1 ? world.peers.gather(mine) : mine;
  }
  /// Collective over all ranks. Runs `body` on those that work. The others sleep until it has
  /// ended: beside cores that only wait, a core has less of the caches and of the processor's power
  /// than in a run on one rank. Throws AgreedError if `body` throws.
  template<class Body>
  void let_work(Body body) const {
    world.peers.agree([&] {
      std::exception_ptr failed;
      try {
        if (works()) body();
      } catch (...) {
        failed = std::current_exception();
      }
      rest();
      if (failed) std::rethrow_exception(failed);
    });
  }
  /// Collective over all ranks. Finds out where the cores are, for the samples that follow.
  void look() const { samples.cores_are_apart(cores.measure_s()); }

 private:
  // Collective over all ranks. Returns when those that work have called it. The others sleep.
  void rest() const {
    if (busy_ranks > 1) return;
    constexpr Idle sleep{.sleep_ns = 200'000};
    double unused = 0;
    const Ticket all = world.peers.start_max(unused);
    while (!works() && !world.peers.lane().test(all)) sleep.pause();
    world.peers.wait(all);
  }
};

/// What a probe model's steps tell besides the times of kernels.
struct StepSamples {
  std::vector<double> step_over_median;  // of repeated steps
  std::vector<double> event_s;           // per event, outside of kernels and products
  std::vector<double> cpu_part;          // of the wall time, the part that this thread ran
  SkewSamples skew;                      // of several ranks
};

/// Trains small models, or the layers of `deck` if it is not null. Collective. `between` is called
/// now and then between models.
void probe_models(const Probe& probe, const Deck* deck, StepSamples& steps,
                  const std::function<void()>& between = {});
/// What attention as one fused kernel reaches.
struct AttentionRates {
  Dtype dtype = Dtype::fp32;
  double forward = 0, backward = 0;  // flops of its products per second; 0: there is no such kernel
};

/// Times attention of the shape of `deck`, or of a common one if it is null. On a host attention
/// consists of kernels that the models launch one by one. Collective.
AttentionRates probe_attention(const Probe& probe, const Deck* deck);
/// Kernels over parameters, gradients and states, once or twice each. Collective.
void probe_states(const Probe& probe, StateTimer& timer);
/// Those with which `deck` quantizes what it sends, if it does. Models do not launch them, since
/// one rank alone sends nothing. Collective.
void probe_quantization(const Probe& probe, const Deck& deck);
/// Collectives of all ranks on the back-end that `auto` picks, alone and beside computation.
/// Returns the levels of the network; what was measured is in the samples. Collective.
std::vector<NetworkLevel> probe_collectives(const Probe& probe);
/// Copies between host and device. Collective.
void probe_copies(const Probe& probe);
/// Transfers of files in `folder`. Collective.
void probe_disk(const Probe& probe, const std::string& folder, Machine& machine);

}  // namespace shardmark
