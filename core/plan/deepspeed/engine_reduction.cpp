// SPDX-License-Identifier: Apache-2.0
#include <span>

#include <core/plan/deepspeed/engine_reduction.hpp>

namespace shardmark {
namespace {

using Bucket = std::span<const EngineGradient>;

// Copies between the tensors of a bucket and the flat buffer.
void copy(StageContext& c, Bucket bucket, int flat, bool back, double divisor) {
  std::int64_t at = 0;
  for (const EngineGradient& g : bucket) {
    const std::int64_t elems = c.writer[g.slot].elems;
    if (back)
      c.writer.convert(c.writer.write(g.slot), c.writer.read(flat, at, elems), divisor);
    else
      c.writer.convert(c.writer.write(flat, at, elems), c.writer.read(g.slot), divisor);
    at += elems;
  }
}

// Several tensors are flattened by a copy, reduced, and divided while they are copied back. A
// single tensor is reduced in place.
void flush(StageContext& c, Bucket bucket, std::int64_t held, Holders holders) {
  PlanWriter& w = c.writer;
  Collectives& collectives = c.collectives;
  const Divisors divisors = collectives.predivided();
  const Dtype sent = c.precision.comm;
  if (bucket.size() == 1)
    return collectives.all_reduce(w.update(bucket[0].slot), divisors, bucket[0].params, sent,
                                  holders);
  const int flat =
      w.slot("bucket" + bucket[0].suffix, Category::bucket, w[bucket[0].slot].dtype, held);
  std::vector<int> params;
  for (const EngineGradient& g : bucket)
    params.insert(params.end(), g.params.begin(), g.params.end());
  w.acquire(flat);
  const Collectives::Divided divided = collectives.divided_by_copies(flat, divisors, sent);
  copy(c, bucket, flat, false, divided.copies.before);
  collectives.all_reduce(w.update(flat), divided.reduction, params, sent, holders);
  copy(c, bucket, flat, true, divided.copies.after);
  w.release(flat);
}

}  // namespace

void reduce_by_engine(StageContext& context, const std::vector<EngineGradient>& gradients,
                      Holders holders) {
  std::size_t first = 0;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    held += context.writer[gradients[i].slot].elems;
    if (held <= engine_bucket_elems && i + 1 < gradients.size()) continue;
    flush(context, Bucket(gradients).subspan(first, i + 1 - first), held, holders);
    first = i + 1;
    held = 0;
  }
}

}  // namespace shardmark
