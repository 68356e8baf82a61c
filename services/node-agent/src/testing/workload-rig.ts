import { createHash } from "node:crypto";
import type { AccessMode } from "@holdfast/model/access";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { onTestFinished } from "vitest";
import type { WorkloadName } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";
import type { ClaimSeen, ControllerClaims } from "../workloads/controller-claims.ts";
import { haltWords } from "../workloads/halt-words.ts";
import { createWorkloadManager, type WorkloadManager, type WorkloadOrder } from "../workloads/workload-manager.ts";
import { anyCaller, type ModelAgent, permitOrder, startModelAgent, volumeRef } from "./model-agent.ts";

/** What the controllers of a test have on record, and how they answer. */
export interface FakeClaims extends ControllerClaims {
  readonly asked: string[];
  /** Claims by uid. */
  readonly known: Map<string, ClaimSeen>;
  /** Rejects every call with this, until it is taken back. */
  fail(error: HoldfastError | undefined): void;
  /** Rejects with this each release that names no lives. */
  deny(error: HoldfastError | undefined): void;
  /** From now on the namespace takes tickets, and this one alone is good; undefined: none is. */
  takeTickets(good: string | undefined): void;
  /** Calls that came with a ticket, and those that asked whether they may. */
  readonly tickets: string[];
  /** Requests are answered when the test says so. */
  hold(): () => void;
  set(uid: string, change: Partial<ClaimSeen>): void;
  /** The permit of a claim arrives at the host. */
  permit(uid: string, accessMode?: AccessMode): Promise<void>;
}

export const away = new HoldfastError({ kind: "unavailable", reason: "CONTROLLER_UNAVAILABLE", message: "away" });

export interface WorkloadRig {
  readonly agent: ModelAgent;
  readonly claims: FakeClaims;
  readonly clock: ManualClock;
  ledger(): Ledger;
  logged(): readonly unknown[];
  workloads(): WorkloadManager;
  /** A new life of the agent over the same journal and mounts. */
  restart(options?: { readonly rebooted?: boolean }): Promise<void>;
  settle(): Promise<void>;
}

export const webName: WorkloadName = { namespace: "ns", workload: "web" };

export const webOrder = (change: Partial<WorkloadOrder> = {}, ...aliases: readonly string[]): WorkloadOrder => {
  const names = aliases.length === 0 ? ["data"] : aliases;
  return {
    ...webName,
    replaces: [],
    requestId: "",
    ticket: "",
    claims: names.map((alias) => ({ alias, volume: `vol-${alias}`, readOnly: false, capability: undefined })),
    volumes: names.map((alias) => ({
      alias,
      volume: `vol-${alias}`,
      readOnly: false,
      places: [{ container: "main", path: `/${alias}`, readOnly: alias === "ro", propagation: "private" as const }],
    })),
    ...change,
  };
};

export async function startWorkloadRig(): Promise<WorkloadRig> {
  const agent = await startModelAgent();
  const clock = createManualClock();
  const log = createMemoryLogger();
  let life = new AbortController();
  onTestFinished(() => life.abort(new Error("the test is over")));
  const claims = createFakeClaims(() => agent);

  const begin = (): WorkloadManager => {
    const made = createWorkloadManager({
      ledger: agent.ledger(),
      volumes: agent.volumes(),
      mounts: agent.host.mounts,
      dirs: agent.host.dirs,
      haltOf: (ref) => haltWords(agent.volumes().halts().get(ref.volumeUid), clock.now()),
      claims,
      hash: (text) => createHash("sha256").update(text).digest("hex"),
      clock,
      random: () => 0.5,
      log,
      signal: life.signal,
    });
    made.resume();
    return made;
  };
  let manager = begin();

  return {
    agent,
    claims,
    clock,
    ledger: agent.ledger,
    logged: () => log.lines,
    workloads: () => manager,
    async restart(options = {}) {
      life.abort(new Error("the process is gone"));
      agent.crash();
      life = new AbortController();
      await agent.start(options);
      manager = begin();
    },
    async settle() {
      for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
    },
  };
}

function createFakeClaims(agent: () => ModelAgent): FakeClaims {
  const asked: string[] = [];
  const known = new Map<string, ClaimSeen>();
  const watchers = new Set<() => void>();
  let failure: HoldfastError | undefined;
  let denial: HoldfastError | undefined;
  let takes: { readonly good: string | undefined } | undefined;
  const tickets: string[] = [];
  /** As controllers judge it: nothing but the ticket is held against what is asked. */
  const judge = (call: string, ticket: string): void => {
    if (ticket !== "" || call === "may-release") tickets.push(`${call} ${ticket}`.trim());
    if (failure !== undefined) throw failure;
    if (denial !== undefined && call !== "request") throw denial;
    if (takes === undefined || ticket === takes.good) return;
    const reason = ticket === "" ? "TICKET_REQUIRED" : "TICKET_REFUSED";
    throw new HoldfastError({ kind: "permission", reason, message: reason });
  };
  let held: Promise<void> = Promise.resolve();
  const epochs = new Map<string, number>();

  const changed = (): void => {
    for (const wake of [...watchers]) wake();
  };
  const isOver = ({ state }: ClaimSeen): boolean => ["RELEASED", "FAILED", "FENCED"].includes(state);
  const decided = (claims: readonly ClaimSeen[]): boolean =>
    claims.every(({ state }) => state === "ACTIVE") || claims.some((it) => it.blocked !== undefined || isOver(it));
  const living = (name: WorkloadName) =>
    [...known.values()].filter(
      (claim) => claim.namespace === name.namespace && claim.workload === name.workload && !isOver(claim),
    );
  const fakeOf = (name: WorkloadName, alias: string, volume: string): ClaimSeen => ({
    ...name,
    uid: `${name.workload}-${alias}-${known.size + 1}`,
    alias,
    volume,
    state: "ATTACHING",
    accessMode: "MULTI_NODE_MULTI_WRITER",
    attachmentMode: "FILE_SYSTEM",
    readOnly: false,
    fsType: "",
    hostPath: "",
    waitingFor: "",
  });
  const fake: FakeClaims = {
    asked,
    known,
    tickets,
    takeTickets(good) {
      takes = { good };
    },
    fail(error) {
      failure = error;
      changed();
    },
    deny(error) {
      denial = error;
    },
    hold() {
      const gate = Promise.withResolvers<void>();
      held = gate.promise;
      return gate.resolve;
    },
    set(uid, change) {
      const claim = known.get(uid);
      if (claim === undefined) throw new Error(`no claim ${uid}`);
      known.set(uid, { ...claim, ...change });
      changed();
    },
    async permit(uid, accessMode) {
      const claim = known.get(uid);
      if (claim === undefined) throw new Error(`no claim ${uid}`);
      const ctr = epochs.get(uid) ?? epochs.size + 1;
      epochs.set(uid, ctr);
      const order = permitOrder(uid, ctr, { workload: claim.workload, alias: claim.alias });
      const { volume } = claim;
      const ref = {
        ...volumeRef,
        namespace: claim.namespace,
        volume,
        volumeUid: `uid-${volume}`,
        externalId: `ext-${volume}`,
      };
      const epoch = { gen: 1, ctr: 1 };
      const mode = accessMode === undefined ? {} : { accessMode };
      await agent()
        .volumes()
        .publish({ ...order, ref, claim: { ...order.claim, ...mode, oldestLiveEpoch: epoch } }, anyCaller);
    },
    async request({ namespace, workload, claims, after, ticket }) {
      asked.push(
        `request ${workload} ${claims.map(({ alias }) => alias).join(",")}${after.map((it) => ` after ${it}`).join("")}`,
      );
      await held;
      judge("request", ticket);
      const here = living({ namespace, workload });
      return claims.map(({ alias, volume }) => {
        const claim = here.find((one) => one.alias === alias) ?? fakeOf({ namespace, workload }, alias, volume);
        known.set(claim.uid, claim);
        return claim;
      });
    },
    async watch({ claimUids }, signal) {
      for (;;) {
        if (failure !== undefined) throw failure;
        const claims = claimUids.flatMap((uid) => known.get(uid) ?? []);
        if (decided(claims)) return claims;
        await new Promise<void>((resolve, reject) => {
          const over = () => reject(new Error("given up"));
          signal.addEventListener("abort", over, { once: true });
          const wake = () => {
            watchers.delete(wake);
            signal.removeEventListener("abort", over);
            resolve();
          };
          watchers.add(wake);
        });
      }
    },
    async mayRelease({ ticket }) {
      judge("may-release", ticket);
    },
    async release({ namespace, workload, claimUids, ticket }) {
      asked.push(`release ${workload}${claimUids.map((uid) => ` ${uid}`).join("")}`);
      if (claimUids.length === 0) judge("release", ticket);
      else if (failure !== undefined) throw failure;
      else if (ticket !== "") throw new Error("lives are named without a ticket");
      const meant = living({ namespace, workload }).filter(
        ({ uid }) => claimUids.length === 0 || claimUids.includes(uid),
      );
      for (const { uid } of meant) known.set(uid, { ...(known.get(uid) as ClaimSeen), state: "RELEASED" });
      changed();
      return meant.flatMap(({ uid }) => known.get(uid) ?? []);
    },
  };
  return fake;
}
