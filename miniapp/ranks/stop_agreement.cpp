// SPDX-License-Identifier: Apache-2.0
#include <miniapp/ranks/stop_agreement.hpp>

namespace shardmark {

void StopAgreement::start(StopCause own) {
  cause_ = static_cast<double>(own);
  ticket_ = peers_.start_max(cause_);
}

StopCause StopAgreement::finish() {
  peers_.wait(ticket_);
  return static_cast<StopCause>(static_cast<int>(cause_));
}

}  // namespace shardmark
