// SPDX-License-Identifier: Apache-2.0
// Small transformers that are trained to time the kernels of modules in their places: operands lie
// where a run has them, in a cache or not, and weights come from memory.
#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include <comm/factory/make_communicator.hpp>
#include <core/clock.hpp>
#include <core/nn/products/matmul.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/run/run_plan.hpp>
#include <miniapp/tools/calibrate/measured_model.hpp>
#include <miniapp/tools/calibrate/probe.hpp>

namespace shardmark {

namespace {

struct ProbeShape {
  Family family;
  std::int64_t layers, hidden, heads, kv_heads, ffn, sequence, vocab, micro;
};

// Widths from 64 to 1536 and 64 to 1024 rows, a few tens of Gflop each at most; odd sizes between
// powers of two, where libraries behave differently. The first ones suffice for --quick.
constexpr ProbeShape shapes[] = {
    {Family::gpt2, 2, 64, 2, 2, 256, 64, 256, 1},
    {Family::gpt2, 2, 128, 4, 4, 512, 128, 1000, 4},
    {Family::gpt2, 2, 256, 4, 4, 1024, 256, 256, 1},
    {Family::gpt2, 1, 512, 8, 8, 2048, 256, 1000, 1},
    {Family::llama, 2, 128, 4, 2, 344, 256, 1000, 1},
    {Family::llama, 1, 384, 6, 2, 1032, 128, 256, 1},
    {Family::gpt2, 1, 768, 12, 12, 3072, 128, 256, 1},
    {Family::gpt2, 2, 128, 2, 2, 512, 128, 50257, 1},
    {Family::gpt2, 1, 256, 8, 8, 1024, 256, 4096, 4},
    {Family::gpt2, 2, 384, 6, 6, 1536, 128, 256, 1},
    {Family::gpt2, 1, 384, 6, 6, 1536, 512, 9000, 1},
    {Family::gpt2, 2, 512, 8, 8, 2048, 64, 256, 1},
    {Family::gpt2, 1, 768, 12, 12, 3072, 256, 1000, 1},
    {Family::gpt2, 1, 768, 12, 12, 3072, 128, 16512, 1},
    {Family::gpt2, 1, 1024, 16, 16, 4096, 128, 256, 1},
    {Family::gpt2, 1, 1024, 8, 8, 4096, 256, 1000, 1},
    {Family::gpt2, 1, 1536, 16, 16, 6144, 64, 256, 1},
    {Family::llama, 2, 64, 2, 1, 192, 64, 256, 2},
    {Family::llama, 1, 256, 8, 2, 688, 512, 2000, 2},
    {Family::llama, 1, 512, 8, 4, 1376, 256, 1000, 1},
    {Family::llama, 1, 512, 8, 2, 1376, 512, 256, 2},
    {Family::llama, 1, 768, 12, 4, 2048, 256, 1000, 1},
    {Family::llama, 1, 1024, 16, 4, 2816, 128, 256, 1},
};
constexpr std::size_t quick_shapes = 7;

Deck deck_of(const ProbeShape& s, Dtype dtype) {
  Deck deck;
  deck.path = "calibrate";
  deck.name = fmt::format("{} {} x {} {}", to_string(s.family), s.hidden, s.sequence * s.micro,
                          to_string(dtype));
  ModelSpec& model = deck.model;
  model.family = s.family;
  model.layers = s.layers;
  model.hidden = s.hidden;
  model.heads = s.heads;
  model.sequence = s.sequence;
  model.vocab = s.vocab;
  model.kv_heads = s.kv_heads;
  model.ffn = s.ffn;
  deck.data.source = DataSource::uniform;
  deck.run.schedule = Schedule::paper;
  deck.zero.micro_batch_size = s.micro;
  deck.zero.precision.model = deck.zero.precision.grad_accum = deck.zero.precision.comm = dtype;
  return deck;
}

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::int64_t events_of_step(const Program& program) {
  std::int64_t events = 0;
  const Step& step = program.steps[step_path(program, false).back()];
  for (const SegmentRun& run : runs_of(step, false))
    for (const int s : run.segments) events += run.times * std::ssize(program.segments[s].events);
  return events;
}

// One model, trained alone on this rank.
class ModelProbe {
 public:
  ModelProbe(const Probe& probe, const Deck& deck, const Batch& batch, Bf16Products bf16)
      : probe_(probe),
        deck_(deck),
        profile_(run_profile(deck, probe.world.node, 1)),
        program_(build_program(deck, batch, 1, 0, profile_)),
        matmul_(profile_.workspace_cap_bytes, bf16),
        context_{Space(), matmul_},
        lanes_(make_communicator(Backend::self, MPI_COMM_SELF, {}), program_) {
    auto model = std::make_unique<MeasuredModel>(
        make_model(deck_, program_, context_), products_, listening_,
        [this](const Event&, const MeasuredEvent& e) { timed_.push_back(e); },
        [this](const Event& e) {
          if (e.phase == Phase::step) probe_.meet();
        });
    measured_ = model.get();
    session_.emplace(deck_, program_, lanes_, context_, SessionOptions{.model = std::move(model)});
    session_->steps().init();
    session_->steps().step(0);  // prepares products, touches memory
  }

  // A step whose kernels are timed; returns its seconds.
  double step(int number, StepSamples& steps) {
    listening_ = true;
    timed_.clear();
    const double overhead_before_s = measured_->overhead_s();
    const double cpu = thread_cpu_s();
    const std::int64_t start_ns = monotonic_ns();
    session_->steps().step(number);
    const double seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    steps.cpu_part.push_back((thread_cpu_s() - cpu) / seconds);
    const double overhead_s = measured_->overhead_s() - overhead_before_s;
    kernels_s_ = seconds_of_kernels();
    const double in_kernels_s = std::accumulate(kernels_s_.begin(), kernels_s_.end(), 0.0);
    steps.event_s.push_back(std::max(0.0, seconds - overhead_s - in_kernels_s) /
                            static_cast<double>(events_of_step(program_)));
    listening_ = false;
    return seconds;
  }
  // The seconds of all kernels of the last timed step, in turn.
  const std::vector<double>& kernels_s() const { return kernels_s_; }
  // Keeps such times of one or more ranks.
  void keep(const std::vector<double>& seconds) const {
    for (auto at = seconds.begin(); at != seconds.end();)
      for (const MeasuredEvent& e : timed_) {
        for (const auto& p : e.products) probe_.samples.add(p.product, probe_.busy_ranks, *at++);
        for (const auto& s : e.streams) probe_.samples.add(s.stream, probe_.busy_ranks, *at++);
      }
  }
  // A step without any timing inside; returns its seconds.
  double bare_step(int number) {
    const std::int64_t start_ns = monotonic_ns();
    session_->steps().step(number);
    return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  }

 private:
  std::vector<double> seconds_of_kernels() const {
    std::vector<double> seconds;
    for (const MeasuredEvent& e : timed_) {
      for (const auto& p : e.products) seconds.push_back(p.seconds);
      for (const auto& s : e.streams) seconds.push_back(s.seconds);
    }
    return seconds;
  }

  const Probe& probe_;
  Deck deck_;
  Profile profile_;
  Program program_;
  MatMul matmul_;
  MatMul* products_ = &matmul_;
  Context context_;
  Lanes lanes_;
  std::optional<Session> session_;
  bool listening_ = false;
  std::vector<MeasuredEvent> timed_;   // of the last timed step
  std::vector<double> kernels_s_;      // of its kernels
  MeasuredModel* measured_ = nullptr;  // of the session
};

void train(const Probe& probe, const Deck& deck, StepSamples& steps) {
  Peers& peers = probe.world.peers;
  Bf16Choice bf16 = choose_bf16_products(deck, Profile{}.workspace_cap_bytes, Space(), peers);
  const std::int64_t micro = deck.zero.micro_batch_size.value_or(1);
  std::optional<ModelProbe> model;
  peers.agree([&] {
    if (probe.works()) model.emplace(probe, deck, Batch{2 * micro, micro, 2}, bf16.products);
  });
  constexpr double enough_s = 0.25;  // of steps per model; at least two steps, at most twelve
  std::vector<double> bare;
  double spent = 0;
  for (int i = 0; i < 12 && (i < 2 || spent < (probe.quick ? enough_s / 4 : enough_s)); ++i) {
    peers.barrier();
    probe.look();
    const bool timed = i % 4 != 3;  // large models have few steps
    double seconds = 0;
    probe.let_work([&] {
      seconds = timed ? model->step(1 + i, steps) : model->bare_step(1 + i);
      if (!timed) bare.push_back(seconds);
    });
    if (timed && probe.works()) {
      const std::vector<double> all = probe.times_of_all(model->kernels_s());
      model->keep(all);
      steps.skew.add(all, probe.busy_ranks > 1 ? peers.size() : 1);
    }
    spent += peers.max(seconds);
  }
  if (!model || bare.empty()) return;
  std::vector<double> sorted = bare;
  std::ranges::sort(sorted);
  for (const double s : bare) steps.step_over_median.push_back(s / sorted[sorted.size() / 2]);
}

// With run.compute `none` modules launch other kernels, over one parameter at a time.
void probe_integers(const Probe& probe) {
  constexpr std::size_t wide = 6;  // tensors from 64 to 2.4 million elements with the first one
  StepSamples unused;
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16})
    for (const std::size_t shape : {std::size_t{0}, wide}) {
      Deck deck = deck_of(shapes[shape], dtype);
      deck.run.compute = Compute::none;
      probe.progress(deck.name + ", without arithmetic");
      train(probe, deck, unused);
    }
}

}  // namespace

void probe_models(const Probe& probe, const Deck* given, StepSamples& steps,
                  const std::function<void()>& between) {
  if (given != nullptr) {
    Deck deck = *given;
    deck.model.layers = std::min<std::int64_t>(deck.model.layers, 2);
    deck.data.source = DataSource::uniform;
    const bool muon = is_muon(deck.zero.optimizer.type);  // modelled only here
    deck.run.schedule = muon ? Schedule::deepspeed : Schedule::paper;
    deck.run.reductions = Reductions::native;
    deck.comm = {};
    deck.zero.stage = muon ? 1 : 0;
    deck.zero.offload_optimizer = deck.zero.offload_param = {};
    deck.zero.knobs = {};
    deck.zero.knobs.reduce_bucket_size = std::int64_t{1} << 20;
    probe.progress("the layers of " + deck.name);
    return train(probe, deck, steps);
  }
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16})
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
      if (probe.quick && i >= quick_shapes) break;
      if (probe.out_of_time()) return;
      constexpr std::size_t at_once = 8;
      if (between && i % at_once == 0) between();
      const Deck deck = deck_of(shapes[i], dtype);
      probe.progress(deck.name);
      train(probe, deck, steps);
    }
  probe_integers(probe);
}

}  // namespace shardmark
