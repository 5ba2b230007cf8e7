// SPDX-License-Identifier: Apache-2.0
// The degrees to which ranks can divide tensors, samples and experts, as candidates of `advise`.
// Every degree with every stage and micro-batch would take many times as long as all the rest, so
// each is first tried with the smallest micro-batch, and the best of them with larger ones.
#pragma once

#include <vector>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// The degrees besides those of `space` that DeepSpeed and the model allow: none; powers of two of
/// tensors and of samples within a node; powers of two of experts; tensors beside experts. The
/// sequences of a step must suit them.
std::vector<ParallelSpec> other_degrees(const Deck& deck, const CandidateSpace& space);

/// Evaluates candidates with other degrees than those of `space`, quickly. Offload is tried if
/// nothing fits without. Nothing if the space has no schedule of DeepSpeed's.
std::vector<Candidate> try_degrees(const AdviseCase& question, const Deck& deck,
                                   const CandidateSpace& space);

}  // namespace shardmark
