// SPDX-License-Identifier: Apache-2.0
// Muon on flat parameter groups, at stages 1 and 2: one function per way of gathering in the table
// of core/plan/deepspeed/muon.hpp.
#pragma once

#include <memory>
#include <vector>

#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {

/// A rank keeps the whole gradient of each matrix that touches its partition, and its whole
/// momentum, so it makes the whole update without another collective.
std::unique_ptr<Muon> muon_of_kept_matrices(StageContext& context, const FlatStates& states,
                                            FlatBuckets& buckets);
/// The optimizer is on the host, where each rank has its partition of gradients and momentum. Every
/// rank gathers all matrices.
std::unique_ptr<Muon> muon_of_host_partitions(StageContext& context, const FlatStates& states);
/// BF16_Optimizer: ranks exchange the momentum of matrices that they share. `grads`: by group, the
/// whole fp32 gradients, in which the updates of this rank's slices take their places.
std::unique_ptr<Muon> muon_of_exchanged_momentum(StageContext& context, const FlatStates& states,
                                                 const std::vector<int>& grads);

}  // namespace shardmark
