/** How each reason to be blocked comes about, in a world: one way for each. */
import { foreignNoted } from "@holdfast/controller/domain/attachment/foreign-hold";
import { type BlockedReason, blockedFor } from "@holdfast/controller/domain/blocked";
import { notGranted } from "@holdfast/controller/domain/repair/rebuilt-volume";
import { nodeRecord } from "@holdfast/controller/domain/testing/record-fixtures";
import { caller, capability, type World } from "./world.ts";

export type WaysReason = BlockedReason | "CREATE_UNCERTAIN" | "MOUNT_HELD";

export const minute = 60_000;

export const expandData = (world: World, required: number) =>
  world.commands.expandVolume(
    { namespace: "default", id: "data", capacity: { required, limit: 0 }, requestId: "" },
    caller,
  );

/** A volume that is mounted on n1 for the workload `job`. */
export const usedData = async (world: World): Promise<void> => {
  await world.makeVolume("data");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
};

/** Total: a new reason does not compile until somebody shows how it comes about. Each answers the volume that is blocked. */
export const blockedWays = (world: World): Record<WaysReason, () => Promise<string>> => {
  const refuse = (method: "create" | "delete" | "publish" | "unpublish" | "expand" | "modify", code: string) => {
    const advice = method === "unpublish" && code === "NOT_FOUND" ? "check-absence" : "block";
    const fault = { kind: "refused", advice, code } as const;
    world.backend.chance((asked) => (asked === method ? fault : undefined));
  };
  const used = () => usedData(world);
  const expand = (required: number) => expandData(world, required);

  /** No instance of its plugin is asked. */
  const undeletable = async (code: string): Promise<string> => {
    await world.makeVolume("data");
    world.backend.script("delete", { kind: "unknown", advice: "block", code });
    await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    return "data";
  };

  return {
    async CREATE_UNCERTAIN() {
      world.backend.script("create", { kind: "lost" }, { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
      await world.makeVolume("data");
      await world.pass(minute, 5_000);
      return "data";
    },
    async INCOMPATIBLE() {
      refuse("create", "ALREADY_EXISTS");
      await world.makeVolume("data");
      return "data";
    },
    async CREDENTIALS_REFUSED() {
      refuse("create", "UNAUTHENTICATED");
      await world.makeVolume("data");
      return "data";
    },
    async PLUGIN_REFUSED() {
      await world.makeVolume("data");
      refuse("delete", "FAILED_PRECONDITION");
      await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
      return "data";
    },
    async NOT_AT_BACKEND() {
      await world.makeVolume("data");
      refuse("publish", "NOT_FOUND");
      await world.claim("job", "n1", ["data"]);
      return "data";
    },
    async FOREIGN_ATTACHMENT() {
      await world.makeVolume("data");
      refuse("publish", "FAILED_PRECONDITION");
      await world.claim("job", "n1", ["data"]);
      return "data";
    },
    async ATTACHED_ELSEWHERE() {
      await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
      world.backend.setOneNode(true);
      await world.claim("first", "n1", ["data"]);
      await world.idle();
      await world.claim("job", "n2", ["data"]);
      return "data";
    },
    async STORAGE_TAKEN() {
      const first = await world.makeVolume("data");
      world.backend.setFacts({ ready: false });
      const twin = await world.makeVolume("twin");
      world.backend.keep(twin.name, first.externalId);
      world.backend.setFacts({ ready: true });
      return "twin";
    },
    async DETACH_UNPROVEN() {
      await used();
      world.backend.setAbsence("unknown");
      refuse("unpublish", "NOT_FOUND");
      await world.release("job");
      return "data";
    },
    async MOUNT_HELD() {
      await used();
      world.agents.chance((method) => (method === "release" ? { kind: "pending", blocked: true } : undefined));
      await world.release("job");
      return "data";
    },
    async PERMIT_REFUSED() {
      await used();
      // The mount is gone, and its repeat is refused for good: the claim stays with its workload.
      world.agents.chance((method) => (method === "publish" ? { kind: "refused", reason: "QUARANTINED" } : undefined));
      world.agents.reboot("n1");
      world.nodes.set("n1", { bootId: "boot-n1-2", instance: "instance-n1-2" });
      return "data";
    },
    async NODE_REPLACED() {
      await used();
      world.nodes.set("n1", {
        machineId: "machine-new",
        journalUid: "journal-new",
        instance: "instance-new",
        nodeEpoch: 2,
      });
      await world.idle();
      await world.release("job");
      return "data";
    },
    async NODE_SILENT() {
      await used();
      world.agents.silence("n1", true);
      world.nodes.set("n1", {}, "suspect");
      await world.release("job");
      return "data";
    },
    async NODE_PENDING() {
      await used();
      world.agents.silence("n1", true);
      const pending = { life: "4f1c09d2b7aa", machineId: "m", bootId: "b", journalUid: "j", address: "n1:1", since: 0 };
      world.nodes.set("n1", { pending }, "suspect");
      await world.release("job");
      return "data";
    },
    async FOREIGN_HOLD() {
      await used();
      const held = { claimUid: "lost", workload: "job", alias: "data", epoch: { gen: 1, ctr: 9 } };
      await world.records.change({ namespace: "default", id: "data" }, (v) =>
        foreignNoted(v, nodeRecord("n1"), [held], 5),
      );
      return "data";
    },
    async EXPAND_IN_USE() {
      await used();
      world.backend.setFacts({ expandsOnline: "no", expandsOffline: "yes" });
      await expand(5_000_000);
      return "data";
    },
    async EXPAND_UNCERTAIN() {
      await world.makeVolume("data");
      world.backend.script("expand", { kind: "lost" }, { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
      await expand(5_000_000);
      await world.pass(5_000);
      return "data";
    },
    async PLUGIN_HANGS() {
      world.backend.script("create", { kind: "lost" }, { kind: "lost" });
      await world.makeVolume("data");
      await world.pass(3_000);
      return "data";
    },
    async CALL_MAY_BE_OPEN() {
      world.backend.script("create", { kind: "lost" });
      await world.makeVolume("data");
      world.backend.setFacts({ ready: false, reason: "the plugin is away" });
      await world.pass(3_000);
      return "data";
    },
    async CALL_BARRED() {
      world.backend.setSeats({ via: "node g1: p", gate: "1" }, { via: "node g2: p", gate: "1" });
      await world.makeVolume("data");
      world.backend.script("publish", { kind: "late", arrives: new Promise(() => undefined) });
      await world.claim("job", "n1", ["data"]);
      await world.idle();
      world.backend.setSeats({ via: "node g2: p", gate: "1" });
      await world.pass(10_000);
      return "data";
    },
    async MODIFY_UNCERTAIN() {
      await world.makeVolume("data");
      world.backend.script("modify", { kind: "lost" }, { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
      const mutableParameters = { tier: "gold" };
      await world.commands.modifyVolume({ namespace: "default", id: "data", mutableParameters, requestId: "" }, caller);
      await world.pass(3_000);
      return "data";
    },
    PLUGIN_AMBIGUOUS: () => undeletable("PLUGIN_AMBIGUOUS"),
    PLACE_UNKNOWN: () => undeletable("PLACE_UNKNOWN"),
    async TOKENS_UNSIGNED() {
      const data = await world.makeVolume("data");
      const block = blockedFor("TOKENS_UNSIGNED", data, "no key", undefined, 0);
      world.agents.chance((method) => (method === "publish" ? { kind: "pending", blocked: true, block } : undefined));
      await world.claim("job", "n1", ["data"]);
      return "data";
    },
    async NOT_PROVEN() {
      await world.makeVolume("data");
      await world.records.change({ namespace: "default", id: "data" }, (v, at) => ({
        volume: notGranted(v, "its context is not known", at.now),
        ended: [],
        notes: [],
      }));
      return "data";
    },
  };
};
