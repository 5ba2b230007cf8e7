// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/memory/device_memory.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/prove/self_check.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/run/run_session.hpp>

namespace shardmark {

void RunSession::open() {
  const Deck& deck = run_.loaded.deck;
  const Profile& profile = run_.profile;
  Peers& peers = world_.peers;
  world_.guard.ends_with(ExitStatus::comm);  // until the run has a status
  find_emulated_ranks();
  const Bf16Choice bf16 = choose_bf16_products(deck, profile.workspace_cap_bytes, Space(), peers);
  bf16_products_ = bf16.reason;
  memory_at_start_ = process_memory();
  device_.start = device_memory_in_use(profile.ranks_per_node);
  static_cast<void>(reset_peak_resident());  // if refused, the peak includes the start of MPI
  peers.agree([&] {
    if (deck.congestion.given) {
      std::optional<double> most_rate;
      if (deck.congestion.gbps) most_rate = *deck.congestion.gbps * 1e9;
      traffic_.emplace(world_.comm, flows(deck.congestion.pattern, congested_ranks_),
                       deck.congestion.message_bytes(), most_rate);
    }
    auto lane = make_run_lane(deck, world_.comm, world_.watch, run_.fault, counters_,
                              traffic_ ? &*traffic_ : nullptr);
    collectives_ = lane->about();
    if (peers.size() > 1) {
      proof_.emplace(proof_options(deck));
      lane = make_proved_lane(std::move(lane), peers, *proof_);
    }
    lanes_.emplace(std::move(lane), run_.program);
    if (!run_.machine_file.empty()) cores_.emplace(ranks_of_node(world_.comm).get());
    matmul_.emplace(profile.workspace_cap_bytes, bf16.products);
    context_.emplace(Context{Space(), *matmul_});
    counters_.not_exposed_while(&context_->emulating);
  });
  clock_offset_ns_ = shardmark::clock_offset_ns(peers, world_.node.host);
  self_check_ =
      shardmark::self_check(deck, profile, *context_, *lanes_, peers, run_.fault.on(peers.rank()));
  device_.ready = device_memory_in_use(profile.ranks_per_node);
  counters_.reset();
  peers.agree([&] {
    auto model = make_model(deck, run_.program, *context_, &data_witness_);
    if (std::ranges::binary_search(slowed_ranks_, peers.rank())) {
      if (deck.perturb.memory.active()) burner_.emplace();
      auto slowed =
          std::make_unique<SlowedModel>(std::move(model), *context_, burner_ ? &*burner_ : nullptr);
      slowed_ = slowed.get();
      model = std::move(slowed);
    }
    session_.emplace(deck, run_.program, *lanes_, *context_,
                     SessionOptions{.model = std::move(model),
                                    .fault = run_.fault.on(peers.rank()),
                                    .idle = world_.watch.idle(),
                                    .ledger = true});
  });
}

void RunSession::slow_down_in(std::int64_t step) {
  if (slowed_ != nullptr)
    slowed_->begin_step(slowness(run_.loaded.deck.perturb, world_.peers.rank(), step));
}

void RunSession::find_emulated_ranks() {
  const Deck& deck = run_.loaded.deck;
  if (!deck.perturb.active() && !deck.congestion.given) return;
  const std::vector<std::string> hosts = world_.peers.gather(world_.node.host);
  world_.peers.agree([&] {
    if (deck.perturb.active())
      slowed_ranks_ = shardmark::slowed_ranks(deck.perturb, hosts, deck.path);
    if (deck.congestion.given)
      congested_ranks_ = shardmark::congested_ranks(deck.congestion, hosts, deck.path);
  });
}

EmulatedTraffic RunSession::emulated() const {
  EmulatedTraffic t;
  if (burner_) {
    t.written_bytes = burner_->written_bytes();
    t.buffer_bytes += MemoryBurner::buffer_bytes;
  }
  if (traffic_) {
    t.received_bytes = traffic_->received_bytes();
    t.buffer_bytes += traffic_->buffer_bytes();
  }
  return t;
}

void RunSession::end_congestion() {
  if (!traffic_) return;
  const GuardedPhase phase(world_.guard, "ending the background traffic",
                           run_.loaded.deck.comm.timeout_s);
  traffic_->end(world_.watch.idle());
}

RunSession::~RunSession() {
  session_.reset();  // frees memory, which may take long and needs no other rank
  burner_.reset();
  const GuardedPhase phase(world_.guard, "closing the communicators of the run", end_limit_s);
  lanes_.reset();
  traffic_.reset();
}

}  // namespace shardmark
