// SPDX-License-Identifier: Apache-2.0
// Gathers that send int8 and scales in place of parameters (zero_quantized_weights, ZeRO++'s qwZ).
// Each rank quantizes what it sends, two all_gathers bring the values and the scales of all ranks,
// and each rank restores the parameters from them. DeepSpeed's quantizer reads and writes fp16
// only, so parameters of another type are converted before and after.
//
// Source: DeepSpeed 0.19.8's runtime/zero/partition_parameters.py, _all_gather_sequential,
// _all_gather_coalesced and the handles that wait for them. It needs CUDA, so nothing was recorded.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/stage_part.hpp>

namespace shardmark {

/// Writes the events of quantized gathers and owns the slots of what is sent.
class QuantizedGather : private StagePart {
 public:
  explicit QuantizedGather(StageContext& context) : StagePart(context) {}

  /// Quantizes `own`, this rank's part of the message `name`, and starts to gather the parts of the
  /// `ranks` ranks of a group. Throws DeckError if DeepSpeed cannot quantize so many elements.
  void start(const std::string& name, Operand own, const std::vector<int>& params, int group,
             int ranks);
  /// Restores the message into the fp16 slot `into`, which is alive, and frees what was sent.
  void finish(const std::string& name, int ranks, int into);

 private:
  struct Message {
    int half = no_slot;  // this rank's part as fp16, if parameters have another type
    int own = no_slot, own_scales = no_slot, all = no_slot, all_scales = no_slot;
  };
  Message& declare(const std::string& name, std::int64_t elems, int ranks);

  std::map<std::pair<std::string, int>, Message> messages_;  // by name and ranks
};

}  // namespace shardmark
