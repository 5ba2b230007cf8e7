// SPDX-License-Identifier: Apache-2.0
// Measures how near the parts of a step are to what the machine allows. Matrix products are limited
// by the same products alone; everything else by the bytes that it must touch and the bandwidth
// that all ranks reach together. Bytes may stay in a cache, so that small parts can be faster than
// their limit.
//
//     bench_limits TURNS DECK [KEY=VALUE ...]
#include <cstring>
#include <numeric>

#include <ci/bench.d/product_replay.hpp>
#include <ci/bench.d/session.hpp>
#include <ci/bench.d/triad.hpp>

#include <core/clock.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark::bench {

enum class Part : std::uint8_t {
  products,
  attention,
  elementwise,
  loss,
  gradients,
  norm,
  optimizer,
  collectives,
  rest
};

}  // namespace shardmark::bench

template<>
inline constexpr auto shardmark::value_names<shardmark::bench::Part> = shardmark::name_list(
    "matrix products", "attention without products", "norms and elementwise", "loss",
    "conversions and sums", "gradient norm and clip", "optimizer", "collectives", "everything else");

namespace shardmark::bench {
namespace {

// The part of an event's kernels, products and attention aside.
Part part_of(const Program& program, const Event& e) {
  if (is_update(e.kernel)) return Part::optimizer;
  switch (e.kernel) {
    case Kernel::grad_norm:
    case Kernel::clip:
    case Kernel::clip_gradient:
    case Kernel::overflow: return Part::norm;
    case Kernel::forward:
    case Kernel::backward:
    case Kernel::forward_end:
    case Kernel::backward_end:
    case Kernel::forward_begin:
    case Kernel::backward_begin:
      return program.model.modules[static_cast<std::size_t>(e.module)].role == Role::head
                 ? Part::loss
                 : Part::elementwise;
    case Kernel::attention:
    case Kernel::attention_backward: return Part::attention;
    case Kernel::load_batch: return Part::rest;
    default: return Part::gradients;
  }
}

// The time of kernels whose labels are those of attention, by Kokkos Tools' callbacks.
struct AttentionTime {
  int open = 0;
  std::int64_t begin_ns = 0, ns = 0;
};
AttentionTime attention_time;

void on_begin(const char* label, const std::uint32_t, std::uint64_t* kernel) {
  *kernel = std::strncmp(label, "shardmark::attention_", 21) == 0 ? 1 : 0;
  if (*kernel == 1 && attention_time.open++ == 0) attention_time.begin_ns = monotonic_ns();
}
void on_end(const std::uint64_t kernel) {
  if (kernel == 1 && --attention_time.open == 0)
    attention_time.ns += monotonic_ns() - attention_time.begin_ns;
}

void listen() {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on_begin);
  tools::set_end_parallel_for_callback(on_end);
  tools::set_begin_parallel_reduce_callback(on_begin);
  tools::set_end_parallel_reduce_callback(on_end);
}

using Seconds = EnumArray<Part, double>;

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

struct Times {
  Seconds of{};
  const Executor* executor = nullptr;
  std::int64_t exposed_ns() const { return executor == nullptr ? 0 : executor->times().exposed; }
};

// The deck's model, with the time of its events by part. Collectives that advance between kernels
// are not a part of them.
class TimedModel : public Model {
 public:
  TimedModel(std::unique_ptr<Model> inner, const MatMul& matmul, Times& times)
      : inner_(std::move(inner)), matmul_(matmul), times_(times) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override {
    const std::int64_t products_ns = matmul_.matmul_ns(), attention_ns = attention_time.ns;
    const std::int64_t exposed_ns = times_.exposed_ns(), start_ns = monotonic_ns();
    inner_->run(program, event, operands, values);
    const double all = seconds(monotonic_ns() - start_ns - (times_.exposed_ns() - exposed_ns));
    const double products = seconds(matmul_.matmul_ns() - products_ns);
    const double attention = seconds(attention_time.ns - attention_ns);
    times_.of[Part::products] += products;
    times_.of[Part::attention] += attention;
    times_.of[part_of(program, event)] += all - products - attention;
  }
  std::span<const std::int64_t> routed_parts(int module, Routed routed) const override {
    return inner_->routed_parts(module, routed);
  }

 private:
  std::unique_ptr<Model> inner_;
  const MatMul& matmul_;
  Times& times_;
};

// What a rank must read and write for a collective in a node, if nothing stays in a cache: of an
// array of S bytes an all_gather reads and writes what the other ranks have, a reduce_scatter reads
// this rank's part of all arrays, and an all_reduce is both.
double touched_bytes(const Event& e, int ranks) {
  const double all = static_cast<double>(e.elems * dtype_bytes(e.dtype));
  const double others = all * (ranks - 1) / ranks, own = all / ranks;
  if (ranks == 1) return 0;
  switch (e.op) {
    case Op::all_gather:
    case Op::all_to_all: return 2 * others;
    case Op::reduce_scatter:
    case Op::reduce: return all + own;
    case Op::all_reduce: return all + own + 2 * others;
    case Op::broadcast: return 2 * all / ranks;
    default: return 0;
  }
}

// Bytes by part that one steady step of this rank touches.
EnumArray<Part, double> bytes_by_part(const Program& program) {
  EnumArray<Part, double> bytes{};
  const Step& step = program.steps[static_cast<std::size_t>(step_path(program, false).back())];
  for (const SegmentRun& run : runs_of(step, false))
    for (const int segment : run.segments)
      for (const Event& e : program.segments[static_cast<std::size_t>(segment)].events) {
        const auto times = static_cast<double>(run.times);
        if (is_collective(e.op))
          bytes[Part::collectives] += times * touched_bytes(e, program.size_of(e.group));
        for (const Stream& s : work_of(program, e).streams)
          bytes[s.in_attention ? Part::attention : part_of(program, e)] +=
              times * s.bytes * s.launches;
      }
  return bytes;
}

// The bandwidth of one rank while all ranks stream: the best of a triad, whose stores fetch the
// lines that they write, and of reading alone. Bytes per second.
class Bandwidth {
 public:
  double measure(MPI_Comm world) {
    const double triad_s =
        together(world, [&] { triad(a_.data(), b_.data(), c_.data(), elems); });
    const double read_s = together(world, [&] { sum_ += read(); });
    return static_cast<double>(elems) * std::max((triad_bytes + 4) / triad_s, 4 / read_s);
  }
  bool finite() const { return sum_ != 1; }  // keeps the loads

 private:
  static constexpr std::int64_t elems = std::int64_t{1} << 25;
  std::uint64_t read() const {
    const auto* words = reinterpret_cast<const std::uint64_t*>(b_.data());
    return std::accumulate(words, words + elems / 2, std::uint64_t{0});
  }
  Array a_ = make_array("a", elems), b_ = make_array("b", elems), c_ = make_array("c", elems);
  std::uint64_t sum_ = 0;
};

struct Turn {
  double step = 0, gb_per_s = 0;
  Seconds measured{}, limit{};
  double all_limits() const { return std::accumulate(limit.begin(), limit.end(), 0.0); }
};

void print_parts(const std::vector<Turn>& turns) {
  const auto median = [&](const auto& of) {
    std::vector<double> values;
    for (const Turn& t : turns) values.push_back(of(t));
    return 1e3 * spread(values).median;
  };
  fmt::print("{:<28}{:>11}{:>11}{:>11}\n", "ms, medians", "limit", "step", "limit/step");
  const auto row = [](std::string_view name, double limit, double step) {
    fmt::print("{:<28}{:>11.2f}{:>11.2f}{:>11}\n", name, limit, step,
               limit > 0 && step > 0 ? fmt::format("{:.2f}", limit / step) : "");
    fmt::print(R"({{"what": "limit of {}", "limit_ms": {:.4g}, "step_ms": {:.4g}}})"
               "\n",
               name, limit, step);
  };
  for (const Part p : all_values<Part>)
    row(to_string(p), median([&](const Turn& t) { return t.limit[p]; }),
        median([&](const Turn& t) { return t.measured[p]; }));
  row("step", median([](const Turn& t) { return t.all_limits(); }),
      median([](const Turn& t) { return t.step; }));
}

Turn take_turn(MPI_Comm world, DeckSession& session, ProductReplay& products,
               Bandwidth& bandwidth, const EnumArray<Part, double>& bytes, Times& times) {
  Turn t;
  const double rate = bandwidth.measure(world);
  t.gb_per_s = rate * 1e-9;
  for (const Part p : all_values<Part>) t.limit[p] = bytes[p] / rate;
  t.limit[Part::products] = together(world, [&] { products.run(*session.context); });
  times.of = {};
  session.executor().reset_times();
  t.step = together(world, [&] { session.step(); });
  t.measured = times.of;
  t.measured[Part::collectives] = seconds(session.executor().times().exposed);
  t.measured[Part::rest] += t.step - std::accumulate(t.measured.begin(), t.measured.end(), 0.0);
  return t;
}

void bench(const Machine& machine, int turns, const std::string& deck,
           const std::vector<std::string>& sets) {
  const MPI_Comm world = machine.world.comm();
  Times times;
  DeckSession session(machine, deck, sets,
                      [&](std::unique_ptr<Model> model, const MatMul& matmul) {
                        return std::make_unique<TimedModel>(std::move(model), matmul, times);
                      });
  times.executor = &session.executor();
  ProductReplay products(session.products_of_step(), Profile{}.workspace_cap_bytes);
  const EnumArray<Part, double> bytes = bytes_by_part(session.program);
  Bandwidth bandwidth;
  listen();
  std::vector<Turn> taken;
  for (int turn = 0; turn < turns; ++turn)
    taken.push_back(take_turn(world, session, products, bandwidth, bytes, times));
  if (session.program.rank != 0 || !bandwidth.finite()) return;
  const std::string name = fmt::format(
      "{} stage {} {} {}", session.deck.name, session.program.stage,
      to_string(session.program.schedule), to_string(session.deck.zero.precision.model));
  fmt::print("{}, {} ranks\n", name, session.program.world);
  print_parts(taken);
  std::vector<double> limits, steps, rates;
  for (const Turn& t : taken) {
    limits.push_back(t.all_limits());
    steps.push_back(t.step);
    rates.push_back(t.gb_per_s);
  }
  const bool fp32 = session.deck.zero.precision.model == Dtype::fp32;
  print_figure("limit/step " + name, ratio(limits, steps), "", fp32 ? ">= 0.93" : ">= 0.85",
               fmt::format("step {:.4f} s, {:.1f} GB/s per rank, {}", spread(steps).median,
                           spread(rates).median, to_string(session.matmul->bf16_products())));
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_deck_bench(argc, argv, "bench_limits", bench);
}
