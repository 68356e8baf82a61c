import { expect, test } from "vitest";
import { defaultProfile, type PluginProfile } from "../domain/plugin/plugin-profile.ts";
import type { PluginSighting } from "../domain/plugin/plugin-sighting.ts";
import { claimRecord, nodeRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { createRenewals } from "./renewals.ts";

const rig = () => {
  let profile: PluginProfile = defaultProfile;
  let changed: (plugin: string) => void = () => undefined;
  const told: string[] = [];
  const renewals = createRenewals({
    profiles: {
      of: () => profile,
      onChange(listener) {
        changed = listener;
        return () => undefined;
      },
    },
    catalogue: {
      names: () => ["p"],
      of: () => ["", "n1", "n2", "away"].map((node) => ({ node }) as PluginSighting),
    },
    nodes: { get: (name) => ({ record: nodeRecord(name), live: "alive", linked: name !== "away" }) },
    agents: { renew: async ({ name }, subject) => void told.push(`${name} ${Object.entries(subject).join()}`) },
  });
  return {
    renewals,
    told,
    set(change: Partial<PluginProfile>) {
      profile = { ...profile, ...change };
      changed("p");
    },
  };
};

test("a profile that asks for something else is told to each agent that runs the plugin and has a stream here", () => {
  const { told, set } = rig();
  set({ maxConcurrentCalls: 3 });
  expect(told).toEqual([]);
  set({ requiresRepublish: true });
  expect(told).toEqual(["n1 plugin,p", "n2 plugin,p"]);
  set({ requiresRepublish: true });
  expect(told).toHaveLength(2);
  set({ tokensInVolumeContext: true });
  expect(told).toHaveLength(4);
});

test("a policy that was changed is told to the agents that have claims of the volume, each once", () => {
  const { told, renewals } = rig();
  const claims = [
    claimRecord("c1"),
    claimRecord("c2"),
    claimRecord("c3", { node: "n2" }),
    claimRecord("c4", { node: "away" }),
  ];
  renewals.policyChanged(volumeRecord(claims));
  expect(told).toEqual(["n1 volumeUid,volume-1", "n2 volumeUid,volume-1"]);
});
