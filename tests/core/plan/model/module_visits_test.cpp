// SPDX-License-Identifier: Apache-2.0
// Rule: of a model of transformers, stage 3's hooks see each call that they were recorded to see,
// those of modules without parameters among them.
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include <core/plan/deepspeed/stage3/leaf_modules.hpp>
#include <core/plan/plan.hpp>
#include <tests/support/recorded.hpp>

namespace shardmark::test::module_visits_test {
namespace {

// The visits of a plan as recorded: "f+" and "f-" before and after a module's forward, "b+" and
// "b-" before and after its backward, and the module's name. Inside of leaves are no hooks.
std::vector<std::string> names_of(const ModelShape& shape, const LeafModules& leaf_modules) {
  const std::vector<int> leaves = leaves_of(shape, leaf_modules);
  std::vector<std::string> names;
  for (const Visit& v : shape.visits) {
    const int leaf = leaves[static_cast<std::size_t>(v.module)];
    if (leaf >= 0 && leaf != v.module) continue;
    const bool before = v.kind == VisitKind::pre_forward || v.kind == VisitKind::pre_backward;
    const bool forward = v.kind == VisitKind::pre_forward || v.kind == VisitKind::post_forward;
    names.push_back(std::string(forward ? "f" : "b") + (before ? "+" : "-") +
                    shape.modules[static_cast<std::size_t>(v.module)].name);
  }
  return names;
}

// Recordings name each module once and then give its number.
std::vector<std::string> recorded_names(const json& raw) {
  std::vector<std::string> names;
  std::istringstream visits(raw.at("visits").get<std::string>());
  for (std::string visit; visits >> visit;)
    names.push_back(visit.substr(0, 2) +
                    raw.at("modules")[std::stoul(visit.substr(2))].get<std::string>());
  return names;
}

// Attention gets its inputs as keywords in most types, which DeepSpeed's hooks after backward do
// not see. Nothing depends on that hook where the module has no parameters; the coordinator knows
// of those that have.
void drop_end_of_attention(std::vector<std::string>& names, const ModelShape& shape) {
  std::set<std::string> around;
  for (const Module& m : shape.modules) {
    int parent = m.parent;
    if (m.adapted) parent = shape.modules[static_cast<std::size_t>(parent)].parent;
    const Module& outer = shape.modules[static_cast<std::size_t>(parent)];
    if (m.role == Role::attn_proj) around.insert("b-" + outer.name);
  }
  std::erase_if(names, [&](const std::string& name) { return around.contains(name); });
}

TEST(ModuleVisits, AreThoseThatHooksWereRecordedToSee) {
  int cases = 0;
  for (const Recording& r : recordings("deepspeed_visits.json")) {
    SCOPED_TRACE(r.name);
    ++cases;
    const Program p = build_program(r.deck, r.batch, r.world, 0, Profile{});
    std::vector<std::string> have = names_of(p.model, r.deck.zero.knobs.leaves);
    std::vector<std::string> want = recorded_names(r.raw);
    drop_end_of_attention(have, p.model);
    drop_end_of_attention(want, p.model);
    EXPECT_EQ(have.size(), want.size());
    EXPECT_EQ(have, want) << first_difference(json(have), json(want));
  }
  EXPECT_GE(cases, 58);
}

}  // namespace
}  // namespace shardmark::test::module_visits_test
