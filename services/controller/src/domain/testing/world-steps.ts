import type { GrantFacts } from "../claim/grant.ts";
import { queueOf } from "../claim/grant.ts";
import type { PublishAnswer, ReleaseAnswer } from "../claim/permit.ts";
import { isDoubtful } from "../doubt.ts";
import type { Step } from "../steps.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { BackendCall, ModelBackend } from "./model-backend.ts";
import type { ModelNode, PermitOrder, ReleaseOrder } from "./model-node.ts";
import type { Answers, Decision } from "./world-answers.ts";
import { violated } from "./world-checks.ts";
import { createWorldPermits, type Luck, lostPermit, type Message } from "./world-permits.ts";
import type { WorldRecord } from "./world-record.ts";
import type { Rules } from "./world-rules.ts";

export const goodLuck: Luck = { call: "done", late: false, publish: "done", release: "done", route: "direct" };

/** A step whose call has left and whose answer is not stored. */
export interface InFlight {
  readonly step: Step;
  finish(): boolean;
  /** The controller is gone: nobody waits for the answer. */
  abandon(): void;
}

export interface WorldStepsDeps {
  readonly record: WorldRecord;
  readonly rules: Rules;
  readonly answers: Answers;
  readonly backend: ModelBackend;
  readonly nodeOf: (name: string) => ModelNode;
  readonly nodeReady: (name: string) => boolean;
  readonly gateOpen: () => boolean;
  readonly factsOf: (plugin: string, node: string) => GrantFacts;
  /** Where messages wait that have not arrived yet. */
  readonly underway: Message[];
}

/** Of the store, which is never lost here. */
const vetting = { gen: 1, uid: "" };

const uidsIn = (volume: VolumeRecord, node: string, state: string): readonly string[] =>
  Object.values(volume.claims).flatMap((c) => (c.node === node && c.state === state ? [c.uid] : []));

const eventOf = {
  published: "published",
  "not-mounted": "not_mounted",
  refused: "permit_refused",
  uncertain: "publish_unknown",
} as const;

/** The reconciler's steps: what is done, and what is asked for first. True or a flight = something happened. */
export const createWorldSteps = (deps: WorldStepsDeps) => {
  const { record, rules, answers, backend, nodeOf, underway } = deps;
  const { handlePermit, push } = createWorldPermits(deps);

  const requireIntent = (volume: VolumeRecord, op: BackendCall["op"], node?: string): void => {
    if (volume.intent?.op !== op || volume.intent.node !== node)
      throw violated(
        "I4",
        `${op} ${node ?? ""} leaves while the intent is ${volume.intent?.op} ${volume.intent?.node}`,
      );
  };

  const flight = (step: Step, finish: () => boolean, abandon: () => void = () => undefined): InFlight => ({
    step,
    finish,
    abandon,
  });

  const attach = (step: Step & { do: "attach" }, volume: VolumeRecord, luck: Luck): InFlight | boolean => {
    const { node, uid } = step;
    if (!deps.gateOpen() || volume.claims[uid]?.goal !== "active") return false;
    if (volume.attachments[node]?.paused !== undefined)
      return record.change("attach_resumed", [uid], (v, at) => rules.attachResumed(v, node, at));
    requireIntent(volume, "attach", node);
    if (volume.attachments[node]?.state !== "ATTACHING") throw violated("I4", `no attachment for ${node} is recorded`);
    const call = backend.begin({ op: "attach", externalId: volume.externalId, node }, luck.call, luck.late);
    const { opId = "", issuer } = volume.intent ?? {};
    /** The attempt is the first one of its intent in this life: no answer of it was lost. */
    const first = issuer === record.moment().issuer;
    return flight(
      step,
      () => {
        const outcome = call.finish();
        const leads = first && outcome.kind === "done" && lead(opId, luck);
        const doubt = volume.intent !== undefined && isDoubtful(volume.intent, record.moment());
        const refusal = doubt ? "attach_owed" : "attach_refused";
        const event =
          outcome.kind === "done"
            ? "attached"
            : outcome.kind === "unknown"
              ? "attach_unknown"
              : outcome.failure.advice === "block"
                ? "attach_paused"
                : refusal;
        const waiting = uidsIn(record.current() ?? volume, node, "ATTACHING");
        const attached = answers.attached(node, outcome);
        const decide: Decision = (v, at) => attached(first && !leads ? rules.keptBack(v, opId, vetting) : v, at);
        return record.changeWithSet(event, waiting, answers.ofLife(volume.uid, decide));
      },
      () => {
        // The controller may end between what leaves and the commit beside it.
        if (first && luck.route === "answer-lost" && call.finish().kind === "done") lead(opId, luck);
        else call.abandon();
      },
    );
  };

  /** The permit leaves with the answer of the attach. False: it does not. */
  const lead = (opId: string, luck: Luck): boolean => {
    const volume = record.current();
    const claim = volume?.intent?.opId === opId ? rules.claimAhead(volume, opId, vetting) : undefined;
    if (volume === undefined || claim?.goal !== "active" || !deps.gateOpen() || !deps.nodeReady(claim.node))
      return false;
    const host = nodeOf(claim.node);
    const permit = rules.permitAhead(volume, claim, { publishContext: {} }, host.nodeEpoch());
    if (permit === undefined) return false;
    push(permit, luck);
    return true;
  };

  const detach = (step: Step & { do: "detach" }, volume: VolumeRecord, luck: Luck): InFlight | boolean => {
    const { node } = step;
    if (volume.intent === undefined)
      return record.change("detach_started", [], (v, at) => rules.detachStarted(v, node, at));
    requireIntent(volume, "detach", node);
    if (volume.attachments[node]?.state !== "DETACHING") throw violated("I4", `no detach of ${node} is recorded`);
    const host = nodeOf(node);
    if (host.mounts(volume.uid).length > 0 || host.staged(volume.uid))
      throw violated("I2", `ControllerUnpublish leaves for ${node}, where the volume is mounted`);
    const call = backend.begin({ op: "detach", externalId: volume.externalId, node }, luck.call, luck.late);
    return flight(
      step,
      () => {
        const outcome = call.finish();
        const absent = !backend.attachedTo(volume.externalId).includes(node);
        const event = outcome.kind === "done" ? "detached" : "detach_unknown";
        const waiting = uidsIn(record.current() ?? volume, node, "DETACHING");
        return record.change(event, waiting, answers.ofLife(volume.uid, answers.detached(node, outcome, absent)));
      },
      call.abandon,
    );
  };

  const ofVolume = (step: Step & { do: "create" | "delete" }, volume: VolumeRecord, luck: Luck): InFlight | boolean => {
    if (step.do === "delete" && !deps.gateOpen()) return false;
    requireIntent(volume, step.do);
    const call = backend.begin(
      step.do === "create" ? { op: "create", name: volume.name } : { op: "delete", externalId: volume.externalId },
      luck.call,
      luck.late,
    );
    const read = step.do === "create" ? answers.created : answers.deleted;
    return flight(
      step,
      () => record.change(step.do, [], answers.ofLife(volume.uid, read(call.finish()))),
      call.abandon,
    );
  };

  /** The life of a node as it was known when the order left: an answer that is stored later must not look younger. */
  const lifeOf = (host: ModelNode) => ({ bootId: host.bootId(), journalUid: host.journalUid() });

  const published = (order: PermitOrder, life: ReturnType<typeof lifeOf>, answer: PublishAnswer): boolean => {
    const decide = answers.ofLife(order.volumeUid, answers.published(order.claimUid, life, answer));
    return record.changeWithSet(eventOf[answer.kind], [order.claimUid], decide);
  };

  const releasedBy = (order: ReleaseOrder, answer: ReleaseAnswer): boolean => {
    const decide: Decision = answers.ofLife(order.volumeUid, answers.released(order.claimUid, answer));
    return record.change(answer.kind === "released" ? "released" : "release_unknown", [order.claimUid], decide);
  };

  const offer = (step: Step & { do: "offer" }, volume: VolumeRecord, luck: Luck): InFlight | boolean => {
    const { node, uid } = step;
    const claim = volume.claims[uid];
    if (!deps.gateOpen() || !deps.nodeReady(node) || claim === undefined) return false;
    const host = nodeOf(node);
    const permit = rules.permitFor(volume, claim, host.nodeEpoch());
    if (permit === undefined) return false;
    if (volume.attachments[node]?.state !== "ATTACHED") throw violated("I4", `${uid} is offered before it is attached`);
    const life = lifeOf(host);
    const { order, answer } = push(permit, luck);
    return flight(step, () => published(order, life, luck.route === "answer-lost" ? lostPermit : answer));
  };

  const release = (step: Step & { do: "release" }, volume: VolumeRecord, luck: Luck): InFlight | boolean => {
    const { node, uid } = step;
    const epoch = volume.claims[uid]?.epoch;
    if (epoch === undefined) return false;
    const host = nodeOf(node);
    const order: ReleaseOrder = { volumeUid: volume.uid, claimUid: uid, nodeEpoch: host.nodeEpoch(), epoch };
    if (luck.route === "delayed" || luck.route === "twice") underway.push({ kind: "release", node, order });
    const unheard: ReleaseAnswer = { kind: "pending", blocked: false, reason: "UNAVAILABLE", message: "no answer" };
    const answer = luck.route === "delayed" ? unheard : host.release(order, luck.release);
    return flight(step, () => releasedBy(order, luck.route === "answer-lost" ? unheard : answer));
  };

  const grant = (volume: VolumeRecord): boolean =>
    deps.gateOpen() &&
    queueOf(volume).some((claim) =>
      record.changeSet("grant", (volumes, at) => rules.grantSet(volumes, claim.set, deps.factsOf, at).changes),
    );

  return {
    start(step: Step, luck: Luck): InFlight | boolean {
      const volume = record.current();
      if (volume === undefined) return false;
      switch (step.do) {
        // Nothing is registered, or bound late, in this world.
        case "validate":
        case "bind":
          return false;
        case "create":
        case "delete":
          return ofVolume(step, volume, luck);
        case "attach":
          return attach(step, volume, luck);
        case "abandon":
          return record.change("attach_abandoned", [step.uid], (v, at) => {
            const { issuer, opId = "" } = v.intent ?? {};
            return rules.attachAbandoned(issuer === at.issuer ? rules.keptBack(v, opId, vetting) : v, step.uid, at);
          });
        case "detach":
          return detach(step, volume, luck);
        // The model's world gives no call to an instance: a call that may be open has worlds of its own.
        case "finish":
        case "lift":
          return false;
        case "reattach":
          return false; // the model's backend loses no attachment
        case "offer":
          return offer(step, volume, luck);
        case "release":
          return release(step, volume, luck);
        case "grant":
          return grant(volume);
        // Sizes and parameters have a world of their own: expand-world.test.ts.
        case "expand":
        case "modify":
        case "grow":
        case "end growth":
        case "end ephemeral":
        case "end restore":
          return false;
        case "expire":
          return record.changeSet("expire", (volumes, at) =>
            rules.expireSet(volumes, volume.claims[step.uid]?.set ?? [], at),
          );
      }
    },
    /** A message arrives that nobody waits for any more, or, with `answered`, one whose answer another life stores. */
    deliver(message: Message, luck: Luck, answered: boolean): void {
      const host = nodeOf(message.node);
      if (message.kind === "permit") {
        const answer = handlePermit(host, message.order, luck, false);
        if (answered) published(message.order, lifeOf(host), answer);
      } else {
        const answer = host.release(message.order, luck.release);
        if (answered) releasedBy(message.order, answer);
      }
    },
  };
};
