// SPDX-License-Identifier: Apache-2.0
#include <core/memory/device_memory.hpp>
#include <core/memory/process_memory.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/run/run_session.hpp>
#include <miniapp/run/self_check.hpp>

namespace shardmark {

void RunSession::open() {
  const Deck& deck = run_.loaded.deck;
  const Profile& profile = run_.profile;
  Peers& peers = world_.peers;
  const Bf16Choice bf16 = choose_bf16_products(deck, profile.workspace_cap_bytes, Space(), peers);
  bf16_products_ = bf16.reason;
  resident_at_start_ = process_memory().resident_bytes;
  device_.start = device_memory_in_use(profile.ranks_per_node);
  static_cast<void>(reset_peak_resident());  // if refused, the peak includes the start of MPI
  world_.watch.set_timeout(deck.comm.timeout_s);
  peers.agree([&] {
    lanes_.emplace(make_run_lane(deck, world_.comm, world_.watch, run_.fault, counters_),
                   run_.program);
    matmul_.emplace(profile.workspace_cap_bytes, bf16.products);
    context_.emplace(Context{Space(), *matmul_});
  });
  clock_offset_ns_ = shardmark::clock_offset_ns(peers, world_.node.host);
  self_check_ = shardmark::self_check(deck, profile, *context_, *lanes_, peers, run_.fault);
  device_.ready = device_memory_in_use(profile.ranks_per_node);
  counters_.reset();
  peers.agree([&] {
    session_.emplace(
        deck, run_.program, *lanes_, *context_,
        SessionOptions{.fault = run_.fault, .idle = world_.watch.idle(), .ledger = true});
  });
}

}  // namespace shardmark
