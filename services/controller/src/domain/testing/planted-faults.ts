import { type Change, endClaim, noChange, withoutKey } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import { startDetach } from "../claim/claim-step.ts";
import type { Moment } from "../moment.ts";
import type { Step } from "../steps.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import {
  blindTo,
  certain,
  done,
  grantOver,
  idle,
  isForNow,
  refusedOver,
  unmarked,
  withoutDoubt,
} from "./blind-decisions.ts";
import { domainRules, type Rules } from "./world-rules.ts";

/** A decision that is wrong in one way, and the invariants that this breaks. */
export interface PlantedFault {
  readonly fault: string;
  readonly breaks: readonly string[];
  readonly rules: Partial<Rules>;
}

const { permitFor, planSteps } = domainRules;

const dropAttach = (volume: VolumeRecord, claim: Claim, at: Moment): Change => {
  const { intent: _dropped, ...rest } = volume;
  return endClaim({ ...rest, attachments: withoutKey(volume.attachments, claim.node) }, claim, "RELEASED", at.now);
};

export const plantedFaults: readonly PlantedFault[] = [
  {
    fault: "a release that is wanted is taken for done",
    breaks: ["I2", "I5"],
    rules: {
      releaseWanted: (volume, uid, trace, at) => {
        const wanted = domainRules.releaseWanted(volume, uid, trace, at);
        return wanted.volume?.claims[uid]?.state === "RELEASING"
          ? domainRules.released(wanted.volume, uid, at)
          : wanted;
      },
    },
  },
  {
    fault: "a release without certain answer is taken for done",
    breaks: ["I2", "I5"],
    rules: { releaseUnknown: (volume, uid, _failure, _blocked, at) => domainRules.released(volume, uid, at) },
  },
  {
    fault: "the first claim to leave a node detaches it",
    breaks: ["I2", "I5", "I6"],
    rules: {
      released: (volume, uid, at) =>
        blindTo(
          volume,
          (c) => c.uid === uid || c.node !== volume.claims[uid]?.node,
          (v) => domainRules.released(v, uid, at),
        ),
    },
  },
  {
    fault: "claims are granted beside any other",
    breaks: ["I1"],
    rules: {
      grantSet: grantOver((volume, mine) => ({
        ...volume,
        claims: Object.fromEntries(Object.entries(volume.claims).filter(([uid]) => mine.has(uid))),
      })),
    },
  },
  {
    fault: "claims are granted while a call is in progress",
    breaks: ["I4", "I5"],
    rules: { grantSet: grantOver((volume) => idle(volume)) },
  },
  {
    fault: "a grant takes the epoch of the one before",
    breaks: ["I3"],
    rules: {
      grantSet: grantOver((volume) => ({
        ...volume,
        epoch: { ...volume.epoch, ctr: Math.max(0, volume.epoch.ctr - 1) },
      })),
    },
  },
  {
    fault: "a lost publication is offered under another epoch",
    breaks: ["I3"],
    rules: {
      publicationLost: (volume, uid, at) => {
        const change = domainRules.publicationLost(volume, uid, at);
        const claim = change.volume?.claims[uid];
        if (change.volume === null || claim?.epoch === undefined) return change;
        const epoch = { ...claim.epoch, ctr: claim.epoch.ctr + 1 };
        const claims = { ...change.volume.claims, [uid]: { ...claim, epoch } };
        return { ...change, volume: { ...change.volume, epoch, claims } };
      },
    },
  },
  {
    fault: "the loss of a publication is not noted",
    breaks: ["I6"],
    rules: { publicationLost: (volume) => noChange(volume) },
  },
  {
    fault: "the floor locks out older grants that live",
    breaks: ["I6"],
    rules: {
      permitFor: (volume, claim, nodeEpoch) => {
        const permit = permitFor(volume, claim, nodeEpoch);
        return permit === undefined ? undefined : { ...permit, oldestLiveEpoch: permit.epoch };
      },
    },
  },
  {
    fault: "the floor never rises",
    breaks: ["I6"],
    rules: {
      permitFor: (volume, claim, nodeEpoch) => {
        const permit = permitFor(volume, claim, nodeEpoch);
        return permit === undefined ? undefined : { ...permit, oldestLiveEpoch: { gen: 0, ctr: 1 } };
      },
    },
  },
  {
    fault: "a refused attach is certain whatever came before",
    breaks: ["I5"],
    rules: { attachAnswered: refusedOver((i, at) => ({ ...withoutDoubt(i), issuer: at.issuer })) },
  },
  {
    fault: "what a dead controller may have attached is forgotten",
    breaks: ["I5"],
    rules: {
      attachAnswered: (volume, ...answer) =>
        refusedOver((i, at) => ({ ...i, issuer: at.issuer }))(unmarked(volume), ...answer),
    },
  },
  {
    fault: "a permit that may have left ahead is not recalled",
    breaks: ["I2", "I5"],
    rules: {
      attachAnswered: (volume, ...answer) => domainRules.attachAnswered(unmarked(volume), ...answer),
      attachAbandoned: (volume, ...asked) => domainRules.attachAbandoned(unmarked(volume), ...asked),
    },
  },
  {
    fault: "an attach without certain answer leaves no doubt",
    breaks: ["I5"],
    rules: {
      attachAnswered: (volume, node, outcome, at) => {
        const change = domainRules.attachAnswered(volume, node, outcome, at);
        return outcome.kind !== "unknown" || change.volume === null
          ? change
          : { ...change, volume: certain(change.volume, withoutDoubt) };
      },
    },
  },
  {
    fault: "an attach that is refused for now keeps the volume's one call",
    breaks: ["I6"],
    rules: {
      attachAnswered: (volume, node, outcome, at) =>
        domainRules.attachAnswered(volume, node, isForNow(outcome) ? { ...outcome, kind: "unknown" } : outcome, at),
    },
  },
  {
    fault: "an attach that waits for a detach is not tried again",
    breaks: ["I6"],
    rules: { attachResumed: (volume) => noChange(volume) },
  },
  {
    fault: "a refused attach detaches the node that is in its way",
    breaks: ["I2", "I6"],
    rules: {
      attachAnswered: (volume, node, outcome, at) => {
        const change = domainRules.attachAnswered(volume, node, outcome, at);
        const other = Object.values(volume.attachments).find((a) => a.node !== node && a.state === "ATTACHED");
        return !isForNow(outcome) || change.volume === null || other === undefined
          ? change
          : { ...change, volume: startDetach(change.volume, other, at) };
      },
    },
  },
  {
    fault: "an attach that is cancelled owes no undo",
    breaks: ["I5", "I6"],
    rules: {
      attachAbandoned: (volume, uid, at) => {
        const claim = volume.claims[uid];
        return claim?.state === "ATTACHING" && claim.goal === "released"
          ? dropAttach(volume, claim, at)
          : noChange(volume);
      },
    },
  },
  {
    fault: "claims that gave up one attach undo it one by one",
    breaks: ["I6"],
    rules: {
      attachAbandoned: (volume, uid, at) =>
        blindTo(
          volume,
          (c) => c.uid === uid || c.state !== "ATTACHING" || c.goal === "active",
          (v) => domainRules.attachAbandoned(v, uid, at),
        ),
    },
  },
  {
    fault: "a detach without certain answer is taken for done",
    breaks: ["I5"],
    rules: { detachAnswered: (volume, node, _outcome, at) => domainRules.detachAnswered(volume, node, done, at) },
  },
  {
    fault: "a detach does not wait for its intent",
    breaks: ["I4"],
    rules: {
      planSteps: (volume, now) => {
        const plan = planSteps(volume, now);
        const early = Object.values(volume.claims)
          .filter((c) => c.state === "DETACHING" && volume.intent?.node !== c.node && volume.intent !== undefined)
          .map(({ node, uid }): Step => ({ do: "detach", lane: "controller", node, uid }));
        return { ...plan, ready: [...plan.ready, ...early] };
      },
    },
  },
  {
    fault: "a cancelled create leaves what it made",
    breaks: ["I5"],
    rules: {
      createAnswered: (volume, outcome, at) =>
        outcome.kind === "done" && volume.goal === "absent"
          ? { volume: null, ended: [], notes: [] }
          : domainRules.createAnswered(volume, outcome, at),
    },
  },
  {
    fault: "a refused create is certain whatever came before",
    breaks: ["I5"],
    rules: {
      createAnswered(volume, outcome, at) {
        const sure = certain(volume, (i) => ({ ...withoutDoubt(i), issuer: at.issuer }));
        return domainRules.createAnswered(outcome.kind === "refused" ? sure : volume, outcome, at);
      },
    },
  },
  {
    fault: "a volume is deleted under its claims",
    breaks: ["I5", "I6"],
    rules: {
      deleteWanted: (volume, trace, at) =>
        blindTo(
          { ...volume, attachments: {} },
          () => false,
          (v) => domainRules.deleteWanted(v, trace, at),
        ),
    },
  },
];
