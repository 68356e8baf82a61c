import { memberKey, spreadFailure } from "../../domain/claim/claim-set-change.ts";
import { volumeForgotten } from "../../domain/repair/repair-change.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { takesWork } from "../../records/grant-facts.ts";
import { refOfKey } from "../../records/volume/volume-codec.ts";
import type { ChangeResult, Decide } from "../../records/volume/volume-decisions.ts";
import { volumeInUse } from "../errors.ts";
import { checkRef, refuse } from "../volume/validate-volume.ts";
import { type AgentWordDeps, agentEffect, askAgent } from "./agent-word.ts";
import { repairNotApplicable } from "./repair-errors.ts";
import type { ForgetVolumeInput, Verb } from "./repair-model.ts";
import { type RepairVerbDeps, runVolumeVerb } from "./repair-verb.ts";
import { checkRepair } from "./validate-repair.ts";

const nodesOf = (volume: VolumeRecord): readonly string[] => [
  ...new Set([...Object.keys(volume.attachments), ...Object.values(volume.claims).map((c) => c.node)]),
];

const setsOf = (volume: VolumeRecord): readonly string[] =>
  Object.values(volume.claims)
    .filter(({ activeAt }) => activeAt === undefined)
    .flatMap(({ set }) => set.map(memberKey));

/** All or nothing holds here too: what waits together with a claim that ends, and was never active, ends in the same commit. */
const storeWithSets = async (
  { records }: RepairVerbDeps,
  volume: VolumeRecord,
  act: Decide,
): Promise<ChangeResult | undefined> => {
  const primary = volumeKey(volume);
  const keys = [...new Set([primary, ...setsOf(volume)])];
  const [result] = await records.changeMany(keys.map(refOfKey), ([main, ...others], at) => {
    if (main === undefined) return [];
    const joined = setsOf(main).find((key) => !keys.includes(key));
    if (joined !== undefined)
      throw repairNotApplicable(`volume ${primary}`, "changing", `a claim came to it with ${joined}; look again`, {
        namespace: main.namespace,
        volume: main.id,
      });
    const byKey = new Map([main, ...others].flatMap((v) => (v === undefined ? [] : [[volumeKey(v), v] as const])));
    const changes = spreadFailure(byKey, primary, act(main, at), at);
    return keys.map((key) => changes.get(key));
  });
  return result;
};

/** Drops a record whose backend is gone. What is left of it for seven days is a tombstone that the sweep still watches. */
export const forgetVolumeCommand =
  (deps: RepairVerbDeps & AgentWordDeps): Verb<ForgetVolumeInput> =>
  async (input, caller) => {
    const { namespace, id, uid } = input;
    const ref = { namespace, id };
    refuse([
      ...checkRef(ref, "volume"),
      ...(uid === "" ? [{ field: "uid", description: "is required: only this life" }] : []),
      ...checkRepair(input),
    ]);
    const what = `volume ${volumeKey(ref)}`;
    let seen: VolumeRecord | undefined;
    return await runVolumeVerb(deps, {
      verb: "ForgetVolume",
      ref,
      asked: input,
      caller,
      subject: { namespace, volume: id, volumeUid: uid },

      async look(volume) {
        seen = volume;
        const words = await Promise.all(
          nodesOf(volume).map(async (node) => [node, await askAgent(deps, node, volume)] as const),
        );
        const holding = words.find(([, word]) => word.kind === "holds");
        if (holding !== undefined)
          throw volumeInUse(volume, [`the mounts of node ${holding[0]}`], { workload: "", node: holding[0] });
        return words;
      },

      decide(volume, words, at) {
        if (volume.uid !== uid)
          throw repairNotApplicable(what, "another life", `its uid is ${volume.uid} now`, { namespace, volume: id });
        const heard = new Map(words);
        const used = Object.values(volume.claims).filter((c) => takesWork(deps.nodes.get(c.node)));
        const [first] = used;
        if (first !== undefined)
          throw volumeInUse(
            volume,
            used.map((c) => `claim of workload ${c.workload} (${c.alias}) on node ${c.node}, ${c.state}`),
            first,
          );
        const unheard = nodesOf(volume).filter((node) => !heard.has(node));
        if (unheard.length > 0)
          throw repairNotApplicable(what, "changing", `node ${unheard[0]} came to it meanwhile; look again`, {
            namespace,
            volume: id,
          });
        const storage = volume.externalId === "" ? `named ${volume.name}` : volume.externalId;
        return {
          change: volumeForgotten(volume, at),
          confirmWith: `forget volume ${volumeKey(ref)} ${uid}; nobody needs ${storage} of plugin ${volume.plugin}`,
          effects: [
            `the record of ${what}, which is ${volume.state}, is dropped; no plugin is called`,
            ...Object.values(volume.claims).map((c) => `claim ${c.uid} of workload ${c.workload} ends FAILED`),
            ...Object.values(volume.attachments).map((a) => `its attachment to node ${a.node} is forgotten`),
            ...(volume.intent === undefined ? [] : [`a ${volume.intent.op} that may still run is not followed up`]),
            ...words.map(([node, word]) => agentEffect(word, node)),
          ],
          risks: [
            `whatever the backend still has of storage ${storage} is leaked; the sweep reports it for as long as it is listed`,
          ],
          subject: {
            namespace,
            volume: id,
            volumeUid: uid,
            plugin: volume.plugin,
            externalId: volume.externalId,
          },
        };
      },

      store: async (act) => (seen === undefined ? undefined : await storeWithSets(deps, seen, act)),
    });
  };
