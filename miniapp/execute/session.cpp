// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <miniapp/execute/session.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

Session::Session(const Deck& deck, const Program& program, const Lanes& lanes, Context& context,
                 SessionOptions options)
    : context_(context),
      model_(options.model ? std::move(options.model) : make_model(deck, program, context)),
      ledger_(options.ledger ? std::make_unique<Ledger>() : nullptr),
      executor_(program, *model_, lanes.by_group(), context.space, ledger_.get(),
                ExecutorOptions{options.fault, options.idle, deck.machine.host_link_gbps,
                                disk_options(deck)}),
      steps_(deck, program, executor_, options.fault) {
  executor_.copies_on(make_copy_lane(native_stream(context.space)));
  context_.poll = [](void* session) {
    auto& own = *static_cast<Session*>(session);
    own.executor_.poll(own.context_.emulating);
  };
  context_.poll_arg = this;
}

Session::~Session() {
  if (context_.poll_arg != this) return;  // another session polls now
  context_.poll = nullptr;
  context_.poll_arg = nullptr;
}

LedgerSnapshot Session::memory() const {
  LedgerSnapshot seen = ledger_->snapshot();
  seen.tiers[Tier::nvme] = executor_.files();
  return seen;
}

}  // namespace shardmark
