// SPDX-License-Identifier: Apache-2.0
// How long the work of one event takes on a machine, alone on its lane. It knows nothing about
// order, waiting and interference, which replay.hpp adds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/price/collective_time.hpp>
#include <core/plan/price/machine.hpp>
#include <core/plan/price/scatter.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {

/// What the time of an event is spent on.
enum class Resource : std::uint8_t {
  products,
  memory,
  host_memory,
  network,
  latency,
  host_link,
  disk,
  host
};
template<>
inline constexpr auto value_names<Resource> = name_list("compute", "memory bandwidth",
                                                        "host memory bandwidth",
                                                        "network bandwidth", "network latency",
                                                        "host link", "disk", "host");

/// How much faster than on the machine each resource is; 1.1 is 10 % more bandwidth.
struct Speeds : EnumArray<Resource, double> {
  Speeds() { fill(1); }
};

/// Seconds by resource; their sum is the duration.
struct Cost : EnumArray<Resource, double> {
  Cost() { fill(0); }
  double total() const {
    double sum = 0;
    for (const double s : *this) sum += s;
    return sum;
  }
};

/// What a prediction had to extrapolate, and by which factor at most.
using Extrapolations = std::map<std::string, double>;

/// Looks up times. Not thread-safe: it remembers what it has looked up.
class EventTimes {
 public:
  /// `machine` must outlive it. `busy_ranks` is the number of ranks per node that compute at the
  /// same time.
  EventTimes(const Machine& machine, int busy_ranks, const Speeds& speeds = {});
  ~EventTimes();
  EventTimes(EventTimes&&) noexcept;

  /// The duration of a computation on memory of `tier`.
  Cost compute(const Work& work, Tier tier = Tier::device);
  /// One product, all of its `count` included; one stream, all of its launches included.
  Cost product(const Product& product);
  Cost stream(const Stream& stream);
  /// The same for a kernel of the host beside a device, such as an update of offloaded states: the
  /// busy ranks of a node share the bandwidth of its memory.
  Cost host_stream(const Stream& stream) const;
  /// The duration of a copy of `bytes` bytes.
  Cost copy(Direction direction, std::int64_t bytes);
  /// The duration of a collective, from the arrival of its last rank. `between_nodes` and the
  /// neighbours follow from the group.
  Cost collective(CollectiveShape shape);

  /// What the host of a device spends on launching an event's kernels, while the device computes
  /// others.
  double launching(const Work& work) const;

  const Extrapolations& extrapolations() const { return extrapolations_; }

 private:
  struct Tables;
  double unmeasured_product(const Product& product) const;
  bool attention_as_a_whole(const Work& work) const;
  Cost cost_of_products(double seconds) const;
  void note(const std::string& what, double beyond);

  const Machine& machine_;
  int busy_ranks_;
  Speeds speeds_;
  std::unique_ptr<Tables> tables_;
  Extrapolations extrapolations_;
};

}  // namespace shardmark
